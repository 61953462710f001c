#!/bin/sh
# Builds the software GPU, CUDA sources and other C++ into one ThreadSanitizer program.
#
#   tsan_build.sh OUT FILE... [-- FLAG...]
#
# FILEs are .cu (kernels), .cpp, .S and .o; FLAGs go to every compilation of theirs. SIMT_TSAN_RUNNER names a folder that
# keeps the runner's objects between builds. The runner itself is built without
# instrumentation: it tells ThreadSanitizer by hand what lanes and barriers order. Kernels are loaded with
# cuModuleLoad("softgpu:program"). CXX names the compiler; it must be clang, whose runtime knows fibers best.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cxx=${CXX:-clang++-19}
out=$1
shift
files=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    files="$files $1"
    shift
done
[ $# -eq 0 ] || shift
work=$(mktemp -d "${out}.build.XXXXXX")
trap 'rm -rf "$work"' EXIT
common="-std=c++17 -O1 -gline-tables-only -fPIE -I$here -I$here/include -I$here/include/simt -I$here/../native/cuda -I$here/../native/gdr"
objects=
runner=${SIMT_TSAN_RUNNER:-$work}
mkdir -p "$runner"
for f in "$here"/*.cpp "$here"/*.S; do
    o=$runner/runner-$(basename "$f").o
    objects="$objects $o"
    [ -z "$(find "$o" -newer "$f" 2>/dev/null)" ] || [ -n "$(find "$here" -name '*.h' -newer "$o")" ] || continue
    case $f in
    *.S) $cxx -c "$f" -o "$o" ;;
    *) $cxx $common -DSIMT_TSAN -c "$f" -o "$o" & ;;
    esac
done
wait
n=0
for f in $files; do
    n=$((n + 1))
    o=$work/$n.o
    case $f in
    *.o) o=$f ;;
    *.cu) $cxx $common -fsanitize=thread -fno-strict-aliasing -DSIMT_TSAN "$@" -include simt/cuda.h -x c++ -c "$f" -o "$o" ;;
    *) $cxx $common -fsanitize=thread -DSIMT_TSAN "$@" -c "$f" -o "$o" ;;
    esac
    objects="$objects $o"
done
# The arrays behind `extern __shared__`: undefined thread-local symbols, all at one address.
bytes=233472
{
    printf '\t.section .tbss,"awT",%%nobits\n\t.balign 64\n'
    for o in $objects; do
        readelf -sW "$o" | awk '$4 == "TLS" && $7 == "UND" && $8 !~ /^simt_|^_ZN7softgpu/ { print $8 }'
    done | sort -u | while read -r s; do
        printf '\t.globl %s\n\t.type %s, %%tls_object\n%s:\n' "$s" "$s" "$s"
    done
    printf '\t.zero %d\n\t.section .note.GNU-stack,"",%%progbits\n' "$bytes"
} >"$work/shared.S"
$cxx -fsanitize=thread -pie -rdynamic $objects "$work/shared.S" -o "$out" -ldl -lpthread
