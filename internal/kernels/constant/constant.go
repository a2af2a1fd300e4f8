// Package constant defines the numbers of the vector functions, shared by the generator of the
// assembly and by the portable code so that they cannot differ. Each is exactly a float32.
package constant

// Range reduction of the exponential: x = n*ln 2 + r with n an integer.
const (
	Log2E = 0x1.715476p+0
	// Ln2High has 16 significant bits, so that n*Ln2High is exact.
	Ln2High = 0x1.62e4p-1
	Ln2Low  = 0x1.7f7d1cp-20
	// RoundToInteger, added to a small number, places its nearest integer in the low bits: 1.5 *
	// 2^23.
	RoundToInteger = 0x1.8p+23
)

// Arguments of the exponential are clamped to these: beyond them the result
// is 0 or +Inf anyway, and 2^n stays a product of two normal powers.
const (
	ExpLowest  = -104
	ExpHighest = 89
	// ExpNormalLowest and ExpNormalHighest are the limits if 2^n itself must
	// be a normal number: n from -126 to 127.
	ExpNormalLowest  = -87.25
	ExpNormalHighest = 88.25
	// TanhLowest limits the argument -2|x|: there tanh is 1 in float32.
	TanhLowest = -20
)

// Expm1 are the coefficients c0.. of (e^r - 1 - r)/r^2 for |r| <= ln(2)/2, an
// interpolation in the Chebyshev nodes, rounded to float32. The relative error of
// e^r - 1 is below 2e-9, a thirtieth of half a float32 ulp.
var Expm1 = [6]float32{
	0x1.0p-1, 0x1.555556p-3, 0x1.5554e8p-5, 0x1.1110ep-7, 0x1.6d43bp-10, 0x1.a1256cp-13,
}

// SignBit is the sign of a float32.
const SignBit = 0x80000000

// Rough gates are tanh(x) = x (n0 + n1 x^2 + n2 x^4) / (1 + d1 x^2 + d2 x^4) for |x| <= RoughLimit,
// to which x is clamped: off by at most 4.6e-5, the least for these degrees. The sigmoid is
// 1/2 + tanh(x/2)/2.
const RoughLimit = 5

var (
	RoughNumerator   = [3]float32{0x1.ffeb9cp-1, 0x1.a14db4p-4, 0x1.59444ep-11}
	RoughDenominator = [3]float32{1, 0x1.bd25e8p-2, 0x1.9f8376p-7}
)

// RoughTanh are the coefficients of tanh(x)/x in powers of x^2 for |x| <= 1.002 that minimize the
// absolute error of tanh for this number of coefficients: below 3.4e-5.
var RoughTanh = [4]float32{0x1.ffd75ap-1, -0x1.50be7ep-2, 0x1.d85472p-4, -0x1.92d642p-6}

// ChaCha8 are the first rows of a block: "expand 32-byte k", in little-endian words (Bernstein
// 2008, ChaCha, a variant of Salsa20).
var ChaCha8 = [4]uint32{0x61707865, 0x3320646e, 0x79622d32, 0x6b206574}

// GELU(x) is computed as x sigmoid(GELUSlope x + GELUCubic x^3), where GELUSlope is 2 sqrt(2/pi)
// and GELUCubic is 0.044715 GELUSlope.
const (
	GELUSlope float32 = 2 * 0.7978845608028654
	GELUCubic float32 = 2 * 0.7978845608028654 * 0.044715
)
