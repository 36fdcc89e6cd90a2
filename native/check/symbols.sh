#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# What an archive of the kernels exports and needs, and which registers its scalar code touches.
#
#   symbols.sh BUILD NAME...
#
# BUILD/liblr.a may export lr_ names only and must have no undefined symbols, not even memcpy, and
# neither may BUILD/check/inline.o. Exception: gcc for PowerPC saves and restores registers in small
# code through functions that every 64-bit linker provides and that for 32 bits come with the
# compiler: they exist wherever -Os is used. No vector or floating-point register may be named in
# the objects of the variants NAME, in objects that belong to no variant, in BUILD/check/inline.o,
# which consists of inline functions, and, in all other objects, in the function that checks whether
# the processor can run them.
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

# A hidden two-instruction function that compilers for SPARC add to every file.
thunk='__sparc_get_pc_thunk.*'
exported=$("$nm" -g --defined-only "$archive" | awk 'NF == 3 { print $3 }' | sort -u |
	grep -vxE "$thunk" || true)
# Allowed undefined symbols: address tables and section bounds, which the linker defines, and the
# empty name (a register, on SPARC).
needed=$("$nm" -u "$archive" "$build/check/inline.o" | awk '$1 == "U" { print $2 }' | sort -u |
	grep -vxE "_GLOBAL_OFFSET_TABLE_|\.TOC\.|__(start|stop)_lr_fault_table|$thunk|" || true)
case ${MACHINE-} in
powerpc*) saving=$(echo "$needed" | grep -xE '_(save|rest)gpr[01]?_[0-9]+(_x)?' || true) ;;
*) saving= ;;
esac
needed=$(echo "$needed" | grep -vxF "${saving:-none}" || true)
[ -n "$exported" ] || fail "exports nothing"

foreign=$(echo "$exported" | grep -v '^lr_' || true)
[ -z "$foreign" ] || fail "exports $(echo $foreign), which does not begin with lr_"

for symbol in $needed; do
	echo "$exported" | grep -qx "$symbol" || fail "needs $symbol from outside"
done

objects=$(echo "$build"/kernels/*.o "$build"/fault/*.o "$build"/vector_context/guarded.o)
# Without -msoft-float, gcc for z/Architecture may spill general registers to floating-point ones in
# any function; the flags of callers are up to them.
case ${MACHINE-} in
s390x-*) ;;
*) objects="$objects $build/check/inline.o" ;;
esac
for name; do
	objects="$objects $build/kernels/isa/$name.o"
done

# Matches operands in a disassembly: a comma, a bracket or nothing may follow, but not the rest of a
# symbol.
operand() {
	echo "[[:space:],{(]($1)([],})[]|\$)"
}

# Names of each machine's vector and floating-point registers, and instructions of extensions that
# must not be used before the processor is known to have them.
extensions='no such instruction'
case ${MACHINE-} in
x86_64-*)
	beyond='%([xyz]?mm[0-9]|k[0-7]|st\b)'
	extensions='\b(andn|bextr|bls(i|r|msk)|bzhi|mulx|pdep|pext|rorx|s(ar|hl|hr)x|[lt]zcnt)'
	;;
aarch64-*) beyond=$(operand '[vz][0-9]+(\.[0-9]*[bhsdq])?(\[[0-9]+\])?|[qdshb][0-9]+') ;;
arm-*) beyond=$(operand '[qds][0-9]+(\[[0-9]+\])?') ;;
powerpc*) beyond=$(operand '(v|vs|f)[0-9]+') ;;
s390x-* | sparc64-*) beyond=$(operand '%[vfdq][0-9]+') ;;
riscv64-*) beyond=$(operand 'f[ast][0-9]+|v[0-9]+') ;;
*) beyond= ;;
esac

disassembled() {
	"$objdump" -d --no-show-raw-insn "$1"
}

if [ -n "$beyond" ]; then
	for object in $objects; do
		touched=$(disassembled "$object" | grep -cE "$beyond" || true)
		[ "$touched" = 0 ] ||
			fail "${object##*/} is scalar; $touched instructions touch vector registers"
	done
	for object in "$build"/kernels/isa/*.o; do
		touched=$(disassembled "$object" | sed -n '/<supported[^>]*>:$/,/^$/p' |
			grep -cE "$beyond|$extensions" || true)
		[ "$touched" = 0 ] ||
			fail "${object##*/}: supported() itself needs what it asks for"
	done
	scalar="no vector register in $(basename -a $objects | xargs)"
else
	scalar="SKIP: the names of vector registers of ${MACHINE:-this machine} are not known"
fi

[ $failed = 0 ] || exit 1
echo "$archive: $(echo "$exported" | wc -l) names, all lr_;" \
	"needs $(echo ${saving:-nothing}); $scalar"
