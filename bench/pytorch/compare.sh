#!/bin/sh
# Puts PyTorch's figures, stock and tuned for this processor, beside those of
# go run ./bench/cmd engine. Arguments go to both, such as: --repeat 21
# PYTHON names an interpreter that has torch (default: /usr/bin/python3).
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-/usr/bin/python3}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

if grep -qw avx512f /proc/cpuinfo; then
	core=SKYLAKEX capability=avx512
elif grep -qw AuthenticAMD /proc/cpuinfo; then
	core=ZEN capability=avx2
else
	core=HASWELL capability=avx2
fi
if "$python" bench/pytorch/pytorch.py --only | grep -q 'reference BLAS'; then
	echo "PyTorch runs on the plain reference BLAS here, some ten times slower than on OpenBLAS:" >&2
	echo "the comparison says nothing. Install libopenblas0, or unpack it and name the folder" >&2
	echo "of its libblas.so.3 in LD_LIBRARY_PATH." >&2
	exit 1
fi
"$python" bench/pytorch/pytorch.py "$@" >"$out/stock.json"
OPENBLAS_CORETYPE=$core ATEN_CPU_CAPABILITY=$capability "$python" bench/pytorch/pytorch.py "$@" >"$out/tuned.json"
go run ./bench/cmd engine --only training,lstm,small,characters,classifier,discriminator,generator \
	--peer "$out/stock.json" --peer "$out/tuned.json" "$@"
