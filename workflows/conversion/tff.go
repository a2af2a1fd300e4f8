package conversion

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	_ "modernc.org/sqlite" // the driver "sqlite", in Go alone
)

// TFF yields the images of one split of TensorFlow Federated's EMNIST, such as all_train: an
// SQLite database whose table examples has split_name, client_id and serialized_example_proto,
// a tf.train.Example with the features pixels, 28 x 28 numbers from 0 to 1, and label. They
// come in order of their rows. The background is white there, 1.
func TFF(ctx context.Context, path, split string) Examples {
	return func(yield func(Example, error) bool) {
		if err := eachTFF(ctx, path, split, yield); err != nil {
			yield(Example{}, fmt.Errorf("%s: %w", filepath.Base(path), err))
		}
	}
}

func eachTFF(ctx context.Context, path, split string, yield func(Example, error) bool) error {
	if err := checkSQLite(path); err != nil {
		return err
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	// A path with a drive begins with a slash in a URL, too.
	source := url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(filepath.ToSlash(absolute), "/"), RawQuery: "mode=ro&immutable=1"}
	database, err := sql.Open("sqlite", source.String())
	if err != nil {
		return err
	}
	defer func() { _ = database.Close() }() // it was only read
	if err := checkSplit(ctx, database, split); err != nil {
		return err
	}
	rows, err := database.QueryContext(ctx, "SELECT rowid, client_id, serialized_example_proto FROM examples WHERE split_name = ? ORDER BY rowid", split)
	if err != nil {
		return notEMNIST(err)
	}
	defer func() { _ = rows.Close() }() // Err says what went wrong
	for rows.Next() {
		x, err := tffRow(filepath.Base(path), rows)
		if _, ok := errors.AsType[*CorruptError](err); err != nil && !ok {
			return err
		}
		if !yield(x, err) {
			return nil
		}
	}
	return rows.Err()
}

func notEMNIST(err error) error {
	return fmt.Errorf("%w; expected the tables examples and client_metadata of TensorFlow Federated's EMNIST", err)
}

// checkSplit looks a split up among those that there are.
func checkSplit(ctx context.Context, database *sql.DB, split string) error {
	rows, err := database.QueryContext(ctx, "SELECT DISTINCT split_name FROM client_metadata ORDER BY split_name")
	if err != nil {
		return notEMNIST(err)
	}
	defer func() { _ = rows.Close() }() // Err says what went wrong
	var splits []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		splits = append(splits, name)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if !slices.Contains(splits, split) {
		return fmt.Errorf("there is no split %q; expected one of %s", split, strings.Join(splits, ", "))
	}
	return nil
}

// checkSQLite tells a database from what a driver would say of another file.
func checkSQLite(path string) error {
	c, err := os.Open(path)
	if err != nil {
		return err
	}
	defer c.Close()
	magic := make([]byte, 16)
	if _, err := c.Read(magic); err != nil || string(magic) != "SQLite format 3\x00" {
		return errors.New("no SQLite database; unpack what comes compressed: xz --decompress --format=lzma emnist_all.sqlite.lzma")
	}
	return nil
}

func tffRow(name string, rows *sql.Rows) (Example, error) {
	var row int64
	var x Example
	var proto []byte
	if err := rows.Scan(&row, &x.User, &proto); err != nil {
		return Example{}, err
	}
	x.Where = fmt.Sprintf("row %d of user %q in %s", row, x.User, name)
	label, pixels, err := parseEMNIST(proto)
	if err == nil {
		x.Label, x.Width, x.Height = label, emnistSide, emnistSide
		x.Pixels, err = greyOf(pixels)
	}
	if err != nil {
		return x, &CorruptError{x.Where, err}
	}
	return x, nil
}

// emnistSide is the width and height of an image of EMNIST.
const emnistSide = 28

// parseEMNIST reads a tf.train.Example (TensorFlow, core/example/example.proto):
//
//	message Example   { Features features = 1; }
//	message Features  { map<string, Feature> feature = 1; }   entries: key = 1, value = 2
//	message Feature   { FloatList float_list = 2; Int64List int64_list = 3; }
//	message FloatList { repeated float value = 1; }
//	message Int64List { repeated int64 value = 1; }
func parseEMNIST(proto []byte) (label int, pixels []float32, err error) {
	labels := []int64{}
	err = eachMessage(proto, 1, func(features []byte) error {
		return eachMessage(features, 1, func(entry []byte) error {
			name, feature, err := mapEntry(entry)
			if err != nil {
				return err
			}
			switch name {
			case "label":
				labels, err = int64List(feature)
			case "pixels":
				pixels, err = floatList(feature)
			}
			return err
		})
	})
	switch {
	case err != nil:
		return 0, nil, fmt.Errorf("a damaged example: %w", err)
	case len(labels) != 1 || len(pixels) != emnistSide*emnistSide:
		return 0, nil, fmt.Errorf("an example of %d labels and %d pixels; expected 1 and %d", len(labels), len(pixels), emnistSide*emnistSide)
	case labels[0] < 0 || labels[0] > math.MaxInt32:
		return 0, nil, fmt.Errorf("the label is %d", labels[0])
	}
	return int(labels[0]), pixels, nil
}

// mapEntry reads the name and the value of an entry.
func mapEntry(entry []byte) (name string, feature []byte, err error) {
	err = eachMessage(entry, 1, func(key []byte) error { name = string(key); return nil })
	if err == nil {
		err = eachMessage(entry, 2, func(value []byte) error { feature = value; return nil })
	}
	return name, feature, err
}

// floatList reads the values of a feature, packed or not.
func floatList(feature []byte) (values []float32, err error) {
	err = eachMessage(feature, 2, func(list []byte) error {
		return eachField(list, 1, func(kind protowire.Type, data []byte) error {
			for len(data) > 0 && (kind == protowire.BytesType || kind == protowire.Fixed32Type) {
				bits, n := protowire.ConsumeFixed32(data)
				if n < 0 {
					return protowire.ParseError(n)
				}
				values, data = append(values, math.Float32frombits(bits)), data[n:]
			}
			return nil
		})
	})
	return values, err
}

// int64List reads the values of a feature, packed or not.
func int64List(feature []byte) (values []int64, err error) {
	err = eachMessage(feature, 3, func(list []byte) error {
		return eachField(list, 1, func(kind protowire.Type, data []byte) error {
			for len(data) > 0 && (kind == protowire.BytesType || kind == protowire.VarintType) {
				value, n := protowire.ConsumeVarint(data)
				if n < 0 {
					return protowire.ParseError(n)
				}
				values, data = append(values, int64(value)), data[n:]
			}
			return nil
		})
	})
	return values, err
}

// eachMessage calls do for each field of a number that is a message, text or bytes.
func eachMessage(data []byte, number protowire.Number, do func([]byte) error) error {
	return eachField(data, number, func(kind protowire.Type, value []byte) error {
		if kind != protowire.BytesType {
			return fmt.Errorf("field %d has wire type %d; expected %d", number, kind, protowire.BytesType)
		}
		return do(value)
	})
}

// eachField calls do for each field of a number: with the content of what has a length, else
// with the encoded value.
func eachField(data []byte, number protowire.Number, do func(protowire.Type, []byte) error) error {
	for len(data) > 0 {
		found, kind, tag := protowire.ConsumeTag(data)
		if tag < 0 {
			return protowire.ParseError(tag)
		}
		n := protowire.ConsumeFieldValue(found, kind, data[tag:])
		if n < 0 {
			return protowire.ParseError(n)
		}
		value := data[tag : tag+n]
		if data = data[tag+n:]; found != number {
			continue
		}
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(value)
		}
		if err := do(kind, value); err != nil {
			return err
		}
	}
	return nil
}
