// This file implements fractions as people write them: exact probabilities, such as
// 1/5000, 10% or 0.1; and shares of a training, as a count or a percentage of its
// rounds. A value has one text form, so that equal values have equal digests.

package numbers

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// Probability is an exact rational number from 0 to 1. The zero value is 0. Values are
// comparable with ==.
type Probability struct{ numerator, denominatorLessOne uint64 }

// maxDenominator keeps products of two probabilities and their printing cheap.
const maxDenominator = 1_000_000_000_000_000_000

var (
	decimal  = regexp.MustCompile(`^[0-9]{0,20}(\.[0-9]{1,20})?([eE][-+]?[0-9]{1,2})?$`)
	fraction = regexp.MustCompile(`^[0-9]{1,19}/[0-9]{1,19}$`)
)

// errProbability describes the syntax of a probability.
var errProbability = errors.New("expected a probability such as 1/5000, 10% or 0.1")

// ParseProbability reads a fraction, a percentage or a decimal number.
func ParseProbability(text string) (Probability, error) {
	number, percent := strings.CutSuffix(text, "%")
	if number == "" || !decimal.MatchString(number) && (percent || !fraction.MatchString(number)) {
		return Probability{}, errProbability
	}
	r, ok := new(big.Rat).SetString(number)
	if !ok {
		return Probability{}, errProbability
	}
	if percent {
		r.Quo(r, big.NewRat(100, 1))
	}
	return probabilityOf(r)
}

func probabilityOf(r *big.Rat) (Probability, error) {
	if r.Sign() < 0 || r.Cmp(big.NewRat(1, 1)) > 0 {
		return Probability{}, errors.New("expected a probability from 0 to 1")
	}
	if !r.Denom().IsUint64() || r.Denom().Uint64() > maxDenominator {
		return Probability{}, fmt.Errorf("expected a probability with a denominator of at most %d", uint64(maxDenominator))
	}
	return Probability{r.Num().Uint64(), r.Denom().Uint64() - 1}, nil
}

// ProbabilityOf returns the simplest probability whose nearest float64 is x: 1/300 for
// 0.0033333333333333335. It inverts Float64 if the denominator was below 2^26:
// fractions with such denominators are farther apart than the float64s between them.
func ProbabilityOf(x float64) (Probability, error) {
	if !(x >= 0 && x <= 1) {
		return Probability{}, fmt.Errorf("%v is no probability", x)
	}
	// Convergents of the continued fraction; the last is x itself.
	rest, before, last := new(big.Rat).SetFloat64(x), [2]*big.Int{big.NewInt(0), big.NewInt(1)}, [2]*big.Int{big.NewInt(1), big.NewInt(0)}
	for {
		whole := new(big.Int).Quo(rest.Num(), rest.Denom())
		for i := range last {
			before[i], last[i] = last[i], new(big.Int).Add(new(big.Int).Mul(whole, last[i]), before[i])
		}
		found := new(big.Rat).SetFrac(last[0], last[1])
		if nearest, _ := found.Float64(); nearest == x {
			return probabilityOf(found)
		}
		rest.Inv(rest.Sub(rest, new(big.Rat).SetInt(whole)))
	}
}

// Rat returns the exact value.
func (p Probability) Rat() *big.Rat {
	n := new(big.Int).SetUint64(p.numerator)
	d := new(big.Int).SetUint64(p.denominatorLessOne + 1)
	return new(big.Rat).SetFrac(n, d)
}

// Float64 returns the nearest float64.
func (p Probability) Float64() float64 {
	f, _ := p.Rat().Float64()
	return f
}

func (p Probability) IsZero() bool { return p.numerator == 0 }

// String returns the text form, as the papers print it: a percentage if it is a whole
// number, otherwise a reduced fraction.
func (p Probability) String() string {
	percent := new(big.Rat).Mul(p.Rat(), big.NewRat(100, 1))
	if percent.IsInt() && !p.IsZero() {
		return percent.Num().String() + "%"
	}
	return p.Rat().RatString()
}

// MarshalText writes the text form.
func (p Probability) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads any form that ParseProbability reads.
func (p *Probability) UnmarshalText(text []byte) error {
	parsed, err := ParseProbability(string(text))
	if err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	*p = parsed
	return nil
}

// Share is a number of rounds, or a percentage of them. The zero value is no rounds.
type Share struct {
	// Count is the number; 0 for a percentage.
	Count int
	// Percentage of the rounds, above 0; 0 for a count.
	Percentage Probability
}

var errShare = errors.New("expected a whole number from 1, or a percentage above 0% such as 10%")

// ParseShare reads a count or a percentage.
func ParseShare(text string) (Share, error) {
	if strings.HasSuffix(text, "%") {
		p, err := ParseProbability(text)
		if err != nil || p.IsZero() {
			return Share{}, errShare
		}
		return Share{Percentage: p}, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1_000_000_000 {
		return Share{}, errShare
	}
	return Share{Count: n}, nil
}

// Of returns the share of total as a number of rounds: the count itself, or
// the percentage rounded down, at least 1. The zero share gives 0.
func (s Share) Of(total int) int {
	if s.Percentage.IsZero() {
		return s.Count
	}
	exact := new(big.Rat).Mul(s.Percentage.Rat(), big.NewRat(int64(total), 1))
	return max(1, int(new(big.Int).Quo(exact.Num(), exact.Denom()).Int64()))
}

// IsZero reports whether the share was never set.
func (s Share) IsZero() bool { return s == Share{} }

// String returns the text form: "800" or "10%". A percentage that is not whole keeps its decimals.
func (s Share) String() string {
	if s.Percentage.IsZero() {
		return strconv.Itoa(s.Count)
	}
	percent := new(big.Rat).Mul(s.Percentage.Rat(), big.NewRat(100, 1))
	decimals, _ := percent.FloatPrec()
	return percent.FloatString(decimals) + "%"
}

// MarshalJSON writes a count as a number and a percentage as text.
func (s Share) MarshalJSON() ([]byte, error) {
	if s.Percentage.IsZero() {
		return []byte(strconv.Itoa(s.Count)), nil
	}
	return strconv.AppendQuote(nil, s.String()), nil
}

// UnmarshalJSON reads either form.
func (s *Share) UnmarshalJSON(data []byte) error {
	text := string(data)
	if unquoted, err := strconv.Unquote(text); err == nil {
		text = unquoted
	}
	parsed, err := ParseShare(text)
	if err != nil {
		return fmt.Errorf("%s: %w", data, err)
	}
	*s = parsed
	return nil
}
