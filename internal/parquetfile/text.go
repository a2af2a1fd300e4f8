package parquetfile

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
)

// Readable returns an error for a leaf with values that Text cannot write.
func (l *Leaf) Readable() error {
	switch l.Meaning {
	case Decimal:
		return unsupported("the column %q holds decimals; cast it to double or text", l.Name())
	case Interval:
		return unsupported("the column %q holds intervals; cast it to text", l.Name())
	case Float16:
		return unsupported("the column %q holds numbers of 16 bits; cast it to float", l.Name())
	case Plain, Unsigned, Seconds, UUID:
	}
	return nil
}

// Text formats a value that is not null: a number in decimal, a timestamp in seconds since 1970,
// a UUID in hexadecimal, and bytes unchanged.
func (l *Leaf) Text(v Value) (string, error) {
	switch l.Kind {
	case Boolean:
		return strconv.FormatBool(v.Bits != 0), nil
	case Int32, Int64:
		return l.integer(int64(v.Bits))
	case Int96:
		return seconds96(v.Bytes), nil
	case Float:
		return strconv.FormatFloat(float64(math.Float32frombits(uint32(v.Bits))), 'g', -1, 32), nil
	case Double:
		return strconv.FormatFloat(math.Float64frombits(v.Bits), 'g', -1, 64), nil
	case Bytes, FixedBytes:
	}
	if l.Meaning == UUID && len(v.Bytes) == 16 {
		x := hex.EncodeToString(v.Bytes)
		return x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:], nil
	}
	return string(v.Bytes), nil
}

func (l *Leaf) integer(x int64) (string, error) {
	if l.Meaning == Seconds {
		return strconv.FormatFloat(float64(x)/l.PerSecond, 'f', -1, 64), nil
	}
	if l.Meaning == Unsigned && x < 0 {
		most := int64(math.MaxInt64)
		if l.Kind == Int32 {
			most = math.MaxInt32
		}
		return "", fmt.Errorf("the column %q has a number without sign above %d; cast it to text", l.Name(), most)
	}
	return strconv.FormatInt(x, 10), nil
}

// seconds96 returns the seconds since 1970 of a timestamp of 96 bits: nanoseconds of the day, and
// the Julian day (Spark, Impala).
func seconds96(b []byte) string {
	const unixDay = 2440588
	nanoseconds := int64(binary.LittleEndian.Uint64(b))
	day := int64(binary.LittleEndian.Uint32(b[8:])) - unixDay
	return strconv.FormatFloat(float64(day)*86400+float64(nanoseconds)/1e9, 'f', -1, 64)
}
