#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# What an archive of the kernels exports and needs, and which registers its scalar code touches.
#
#   symbols.sh BUILD NAME...
#
# BUILD/liblr.a may export lr_ names only and must need nothing from outside, not even memcpy.
# The objects of the variants NAME, those that belong to no variant, BUILD/check/inline.o, which is
# made of inline functions, and in all other objects the function
# that asks whether the processor can run them may not name a vector or floating-point register.
set -eu

build=$1
shift
archive=$build/liblr.a
nm=${NM:-nm}
objdump=${OBJDUMP:-objdump}
failed=0

fail() {
	echo "FAIL $archive: $1" >&2
	failed=1
}

exported=$("$nm" -g --defined-only "$archive" | awk 'NF == 3 { print $3 }' | sort -u)
# Tables of addresses that the linker makes, the bounds of sections that it knows, and no symbol at
# all, are from nowhere.
needed=$("$nm" -u "$archive" | awk '$1 == "U" { print $2 }' | sort -u |
	grep -vxE '_GLOBAL_OFFSET_TABLE_|\.TOC\.|__(start|stop)_lr_fault_table|' || true)
[ -n "$exported" ] || fail "exports nothing"

foreign=$(echo "$exported" | grep -v '^lr_' || true)
[ -z "$foreign" ] || fail "exports $(echo $foreign), which does not begin with lr_"

for symbol in $needed; do
	echo "$exported" | grep -qx "$symbol" || fail "needs $symbol from outside"
done

objects="$(echo "$build"/kernels/*.o "$build"/fault/*.o) $build/check/inline.o"
for name; do
	objects="$objects $build/kernels/isa/$name.o"
done
if [ -n "${X86_64-x}" ]; then
	beyond='%([xyz]?mm[0-9]|k[0-7]|st\b)'
	for object in $objects; do
		touched=$("$objdump" -d --no-show-raw-insn "$object" | grep -cE "$beyond" || true)
		[ "$touched" = 0 ] ||
			fail "${object##*/} is scalar; $touched instructions touch vector registers"
	done
	# Nor an instruction of BMI1, BMI2: it runs before anybody knows what the processor has.
	beyond="$beyond"'|\b(andn|bextr|bls(i|r|msk)|bzhi|mulx|pdep|pext|rorx|s(ar|hl|hr)x|[lt]zcnt)'
	for object in "$build"/kernels/isa/*.o; do
		touched=$("$objdump" -d --no-show-raw-insn "$object" |
			sed -n '/<supported[^>]*>:$/,/^$/p' | grep -cE "$beyond" || true)
		[ "$touched" = 0 ] ||
			fail "${object##*/}: supported() itself needs what it asks for"
	done
	scalar="no vector register in $(basename -a $objects | xargs)"
else
	scalar="SKIP: the names of vector registers are known for x86-64 only"
fi

[ $failed = 0 ] || exit 1
echo "$archive: $(echo "$exported" | wc -l) names, all lr_; needs nothing; $scalar"
