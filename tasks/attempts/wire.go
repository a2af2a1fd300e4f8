package attempts

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"coalmine/storage"
	"coalmine/tasks"
)

// Format is the version of the encoding of attempts and outcomes. A process reads all formats up to its own. A
// worker answers in the format of the attempt, so that the sending coordinator can read the answer. Later
// formats keep formatField, so that earlier builds recognize them. A new field that earlier builds may ignore
// needs no new format.
const Format = 1

// ErrLaterFormat reports an attempt or an outcome in the format of a later build.
var ErrLaterFormat = errors.New("it has the format of a later build")

// An attempt is encoded in the wire format of Protocol Buffers: for many short tasks, JSON decoding
// took a tenth of a worker's time. Zero values are omitted, and readers skip unknown fields. A new
// field takes a new number.
const (
	keyField protowire.Number = iota + 1
	kindField
	versionField
	paramsField
	inputField // one per input, with the two fields below
	stepField
	partField
	secretKeyField
	numberField
	runField // one per run
	traceField
	timeoutField
	leaderField // with the three fields below
	termsField
	classField
	formatField // omitted by builds that predate formats, which write format 1
)

const (
	inputNameField protowire.Number = iota + 1
	inputKeyField
)

const (
	holderField protowire.Number = iota + 1
	storeField
	storeIDField
)

// Encode writes the attempt for DecodeAttempt.
func (a *Attempt) Encode() []byte {
	b := appendBytes(nil, keyField, a.Key.Digest[:])
	b = appendBytes(b, kindField, a.Kind)
	b = appendInt(b, versionField, a.Version)
	b = appendBytes(b, paramsField, a.Params)
	for _, in := range a.Inputs {
		input := appendBytes(nil, inputNameField, in.Name)
		b = appendBytes(b, inputField, appendBytes(input, inputKeyField, in.Key.Digest[:]))
	}
	b = appendInt(b, stepField, a.Step)
	b = appendInt(b, partField, a.Part)
	b = appendBytes(b, secretKeyField, a.SecretKey)
	b = appendInt(b, numberField, a.Number)
	for _, run := range a.Runs {
		b = appendBytes(b, runField, run)
	}
	b = appendBytes(b, traceField, a.Trace)
	b = protowire.AppendTag(b, timeoutField, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, math.Float64bits(a.TimeoutSeconds))
	b = appendBytes(b, leaderField, a.Leader.encode())
	b = appendBytes(b, termsField, a.Terms)
	b = appendBytes(b, classField, string(a.Class))
	return appendInt(b, formatField, Format)
}

func (l Leader) encode() []byte {
	b := appendBytes(nil, holderField, l.Holder)
	b = appendBytes(b, storeField, l.Store)
	return appendBytes(b, storeIDField, l.StoreID)
}

// DecodeAttempt reads an attempt of any format up to Format. The attempt shares the bytes. The error wraps
// ErrLaterFormat for one of a later format.
func DecodeAttempt(data []byte) (Attempt, error) {
	format, err := FormatOf(data)
	if err != nil {
		return Attempt{}, fmt.Errorf("%d bytes that are no attempt: %w", len(data), err)
	}
	if format > Format {
		return Attempt{}, fmt.Errorf("format %d; this build reads formats up to %d: %w", format, Format, ErrLaterFormat)
	}
	var a Attempt
	err = eachField(data, func(field protowire.Number, v value) (err error) {
		switch field {
		case keyField:
			a.Key, err = v.key()
		case kindField:
			a.Kind = string(v.bytes)
		case versionField:
			a.Version = int(v.number)
		case paramsField:
			a.Params = v.bytes
		case inputField:
			var in tasks.Input
			in, err = decodeInput(v.bytes)
			a.Inputs = append(a.Inputs, in)
		case stepField:
			a.Step = int(v.number)
		case partField:
			a.Part = int(v.number)
		case secretKeyField:
			a.SecretKey = string(v.bytes)
		case numberField:
			a.Number = int(v.number)
		case runField:
			a.Runs = append(a.Runs, string(v.bytes))
		case traceField:
			a.Trace = string(v.bytes)
		case timeoutField:
			a.TimeoutSeconds = math.Float64frombits(v.number)
		case leaderField:
			a.Leader, err = decodeLeader(v.bytes)
		case termsField:
			a.Terms = v.bytes
		case classField:
			a.Class = tasks.Class(v.bytes)
		}
		return err
	})
	if err != nil {
		return Attempt{}, fmt.Errorf("%d bytes that are no attempt: %w", len(data), err)
	}
	return a, nil
}

// FormatOf returns the format of an attempt, 1 if it names none. It reads no other field, because
// their meaning may change in a later format.
func FormatOf(data []byte) (int, error) {
	format := 1
	err := eachField(data, func(field protowire.Number, v value) error {
		if field == formatField {
			format = int(min(v.number, math.MaxInt32))
		}
		return nil
	})
	return format, err
}

func decodeInput(data []byte) (tasks.Input, error) {
	var in tasks.Input
	err := eachField(data, func(field protowire.Number, v value) (err error) {
		switch field {
		case inputNameField:
			in.Name = string(v.bytes)
		case inputKeyField:
			in.Key, err = v.key()
		}
		return err
	})
	return in, err
}

func decodeLeader(data []byte) (Leader, error) {
	var l Leader
	err := eachField(data, func(field protowire.Number, v value) error {
		switch field {
		case holderField:
			l.Holder = string(v.bytes)
		case storeField:
			l.Store = string(v.bytes)
		case storeIDField:
			l.StoreID = string(v.bytes)
		}
		return nil
	})
	return l, err
}

func appendBytes[T string | ~[]byte](b []byte, field protowire.Number, v T) []byte {
	if len(v) == 0 {
		return b
	}
	b = protowire.AppendTag(b, field, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(v)))
	return append(b, v...)
}

func appendInt(b []byte, field protowire.Number, v int) []byte {
	if v == 0 {
		return b
	}
	b = protowire.AppendTag(b, field, protowire.VarintType)
	return protowire.AppendVarint(b, uint64(v))
}

// value is the value of a field, by wire type.
type value struct {
	bytes  []byte
	number uint64
}

func (v value) key() (storage.Key, error) {
	var key storage.Key
	if n := copy(key.Digest[:], v.bytes); n != len(v.bytes) || n < len(key.Digest) {
		return key, fmt.Errorf("a key of %d bytes: want %d", len(v.bytes), len(key.Digest))
	}
	return key, nil
}

// eachField calls do with the fields of a message in order.
func eachField(data []byte, do func(protowire.Number, value) error) error {
	for len(data) > 0 {
		field, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		var v value
		switch kind {
		case protowire.BytesType:
			v.bytes, n = protowire.ConsumeBytes(data)
		case protowire.VarintType:
			v.number, n = protowire.ConsumeVarint(data)
		case protowire.Fixed64Type:
			v.number, n = protowire.ConsumeFixed64(data)
		default:
			n = protowire.ConsumeFieldValue(field, kind, data)
		}
		if n < 0 {
			return fmt.Errorf("field %d: %w", field, protowire.ParseError(n))
		}
		if err := do(field, v); err != nil {
			return fmt.Errorf("field %d: %w", field, err)
		}
		data = data[n:]
	}
	return nil
}
