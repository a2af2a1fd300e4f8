package kernels

import "golang.org/x/sys/cpu"

var avx2 = &set{
	name:     "avx2",
	tileRows: 6, tileColumns: 16, tileLanes: 8,
	tiles: [][]tileFunc{
		1: {1: tile1x1AVX2, tile2x1AVX2, tile3x1AVX2, tile4x1AVX2, tile5x1AVX2, tile6x1AVX2},
		2: {1: tile1x2AVX2, tile2x2AVX2, tile3x2AVX2, tile4x2AVX2, tile5x2AVX2, tile6x2AVX2},
	},
	transpose8:               transpose8AVX2,
	exp:                      expAVX2,
	sigmoid:                  sigmoidAVX2,
	tanh:                     tanhAVX2,
	max:                      maxAVX2,
	expSum:                   expSumAVX2,
	sumExp:                   sumExpAVX2,
	moments:                  momentsAVX2,
	expColumns:               expColumns4AVX2,
	expColumns1:              expColumns1AVX2,
	dotRows:                  dotRows4AVX2,
	dotRows1:                 dotRows1AVX2,
	axpy:                     axpyAVX2,
	scale:                    scaleAVX2,
	add:                      addAVX2,
	dot:                      dotAVX2,
	mul:                      mulAVX2,
	blend:                    blendAVX2,
	mulAdd:                   mulAddAVX2,
	cifgGates:                cifgGatesAVX2,
	mulTanh:                  mulTanhAVX2,
	roundedTile:              roundedTileAVX2,
	roundedRows:              6,
	cifgRoughDot:             cifgRoughDotAVX2,
	cifgBackward:             cifgBackwardAVX2,
	lstmBackward:             lstmBackwardAVX2,
	gruCandidate:             gruCandidateAVX2,
	gruCell:                  gruCellAVX2,
	gruBackward:              gruBackwardAVX2,
	maxPool:                  maxPoolAVX2,
	maxPoolBackward:          maxPoolBackwardAVX2,
	sumRows:                  sumRowsAVX2,
	rectify:                  rectifyAVX2,
	columnMoments:            columnMomentsAVX2,
	normalizeColumns:         normalizeColumnsAVX2,
	normalizeColumnsBackward: normalizeColumnsBackwardAVX2,
	rowMoments:               rowMomentsAVX2,
	normalizeRow:             normalizeRowAVX2,
	gelu:                     geluAVX2,
	chaCha8:                  chaCha8AVX2,
	peak:                     peakAVX2,
}

var avx512 = &set{
	name:     "avx512",
	tileRows: 8, tileColumns: 48, tileLanes: 16,
	tiles: [][]tileFunc{
		1: {1: tile1x1AVX512, tile2x1AVX512, tile3x1AVX512, tile4x1AVX512, tile5x1AVX512, tile6x1AVX512, tile7x1AVX512, tile8x1AVX512},
		2: {1: tile1x2AVX512, tile2x2AVX512, tile3x2AVX512, tile4x2AVX512, tile5x2AVX512, tile6x2AVX512, tile7x2AVX512, tile8x2AVX512},
		3: {1: tile1x3AVX512, tile2x3AVX512, tile3x3AVX512, tile4x3AVX512, tile5x3AVX512, tile6x3AVX512, tile7x3AVX512, tile8x3AVX512},
	},
	transpose8:               transpose8AVX2,
	exp:                      expAVX512,
	sigmoid:                  sigmoidAVX512,
	tanh:                     tanhAVX512,
	max:                      maxAVX512,
	expSum:                   expSumAVX512,
	sumExp:                   sumExpAVX512,
	moments:                  momentsAVX512,
	expColumns:               expColumns4AVX512,
	expColumns1:              expColumns1AVX512,
	dotRows:                  dotRows4AVX512,
	dotRows1:                 dotRows1AVX512,
	axpy:                     axpyAVX512,
	scale:                    scaleAVX512,
	add:                      addAVX512,
	dot:                      dotAVX512,
	mul:                      mulAVX512,
	blend:                    blendAVX512,
	mulAdd:                   mulAddAVX512,
	cifgGates:                cifgGatesAVX512,
	mulTanh:                  mulTanhAVX512,
	roundedTile:              roundedTileAVX512,
	roundedRows:              12,
	cifgRoughDot:             cifgRoughDotAVX512,
	cifgBackward:             cifgBackwardAVX512,
	lstmBackward:             lstmBackwardAVX512,
	gruCandidate:             gruCandidateAVX512,
	gruCell:                  gruCellAVX512,
	gruBackward:              gruBackwardAVX512,
	maxPool:                  maxPoolAVX512,
	maxPoolBackward:          maxPoolBackwardAVX512,
	sumRows:                  sumRowsAVX512,
	rectify:                  rectifyAVX512,
	columnMoments:            columnMomentsAVX512,
	normalizeColumns:         normalizeColumnsAVX512,
	normalizeColumnsBackward: normalizeColumnsBackwardAVX512,
	rowMoments:               rowMomentsAVX512,
	normalizeRow:             normalizeRowAVX512,
	gelu:                     geluAVX512,
	chaCha8:                  chaCha8AVX512,
	peak:                     peakAVX512,
}

// available lists the sets that this processor can run, fastest first.
func available() []*set {
	var sets []*set
	hasAVX2 := cpu.X86.HasAVX2 && cpu.X86.HasFMA
	if hasAVX2 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL {
		sets = append(sets, avx512)
	}
	if hasAVX2 {
		sets = append(sets, avx2)
	}
	return append(sets, portable)
}
