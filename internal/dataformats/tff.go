// This file reads the databases in which TensorFlow Federated stores its data sets: SQLite, with a
// table examples of split_name, client_id and serialized_example_proto, a tf.train.Example, and a table
// client_metadata, which has the splits.

package dataformats

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"modernc.org/sqlite" // the driver "sqlite", in pure Go
	sqlite3 "modernc.org/sqlite/lib"

	"coalmine/internal/lists"
)

// TFFRow is an example of a client.
type TFFRow struct {
	Number  int64 // of the row, from 1
	Split   string
	Client  *string // nil for null
	Example []byte  // valid until the next row; nil for null
}

// TFFRows yields the rows of some splits in order. An error ends the iteration.
func TFFRows(ctx context.Context, path string, splits []string) iter.Seq2[TFFRow, error] {
	return func(yield func(TFFRow, error) bool) {
		if err := tffEach(ctx, path, splits, yield); err != nil {
			yield(TFFRow{}, err)
		}
	}
}

// tffEach yields rows until there are no more, or the caller stops.
func tffEach(ctx context.Context, path string, splits []string, yield func(TFFRow, error) bool) error {
	if err := checkSQLite(path); err != nil {
		return err
	}
	if err := CheckWholeTFF(os.DirFS(filepath.Dir(path)), filepath.Base(path)); err != nil {
		return err
	}
	database, err := open(path)
	if err != nil {
		return err
	}
	defer func() { _ = database.Close() }() // it was only read
	if err := checkSplits(ctx, database, splits); err != nil {
		return err
	}
	// The plus disables an index of splits, if there is one: rows come in order without sorting.
	query := "SELECT rowid, split_name, client_id, serialized_example_proto FROM examples WHERE +split_name IN (?" + strings.Repeat(", ?", len(splits)-1) + ") ORDER BY rowid"
	rows, err := database.QueryContext(ctx, query, lists.Map(splits, func(split string) any { return split })...)
	if err != nil {
		return notTFF(ctx, database, err)
	}
	defer func() { _ = rows.Close() }() // Err reports the failure
	for rows.Next() {
		var r TFFRow
		var example sql.RawBytes
		if err := rows.Scan(&r.Number, &r.Split, &r.Client, &example); err != nil {
			return err
		}
		r.Example = example
		if !yield(r, nil) {
			return nil
		}
	}
	return rows.Err()
}

// open opens a database that no process writes to.
func open(path string) (*sql.DB, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	// A path with a drive also begins with a slash in a URL.
	source := url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(filepath.ToSlash(absolute), "/"), RawQuery: "mode=ro&immutable=1"}
	return sql.Open("sqlite", source.String())
}

// notTFF distinguishes a database without the tables or columns from a damaged one.
func notTFF(ctx context.Context, database *sql.DB, err error) error {
	wrong, ok := errors.AsType[*sqlite.Error](err)
	if !ok || wrong.Code()&0xff != sqlite3.SQLITE_ERROR {
		return err
	}
	tables, unread := tablesOf(ctx, database)
	if unread != nil {
		return unread
	}
	return &TFFOtherError{Err: err, Tables: tables}
}

// shownTables is the maximum number of tables in an error.
const shownTables = 10

// tablesOf describes the first tables: "posts" ("author", "body").
func tablesOf(ctx context.Context, database *sql.DB) (tables []string, err error) {
	rows, err := database.QueryContext(ctx, "SELECT m.name, p.name, p.cid FROM sqlite_master m, pragma_table_info(m.name) p WHERE m.type = 'table' ORDER BY m.rowid, p.cid")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err reports the failure
	for rows.Next() {
		var table, column string
		var position int
		if err := rows.Scan(&table, &column, &position); err != nil {
			return nil, err
		}
		switch last := len(tables) - 1; {
		case position > 0:
			tables[last] = fmt.Sprintf("%s, %q)", strings.TrimSuffix(tables[last], ")"), column)
		case len(tables) == shownTables:
			return append(tables, "..."), nil
		default:
			tables = append(tables, fmt.Sprintf("%q (%q)", table, column))
		}
	}
	return tables, rows.Err()
}

// TFFOtherError reports that a database is not one of TensorFlow Federated.
type TFFOtherError struct {
	Err    error    // from SQLite
	Tables []string // of the database, with their columns
}

func (e *TFFOtherError) Error() string {
	return fmt.Sprintf("%v; expected the tables examples and client_metadata of TensorFlow Federated, and the database has %s; "+
		`write a table of texts to a CSV file, its names in place of posts, author and body: sqlite3 -header -csv DATABASE "SELECT author AS user, body AS text FROM posts" > posts.csv`,
		e.Err, cmp.Or(strings.Join(e.Tables, ", "), "no table"))
}

func (e *TFFOtherError) Unwrap() error { return e.Err }

func checkSplits(ctx context.Context, database *sql.DB, wanted []string) error {
	rows, err := database.QueryContext(ctx, "SELECT DISTINCT split_name FROM client_metadata WHERE split_name IS NOT NULL ORDER BY split_name")
	if err != nil {
		return notTFF(ctx, database, err)
	}
	defer func() { _ = rows.Close() }() // Err reports the failure
	var splits []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		splits = append(splits, name)
	}
	if err := rows.Err(); err != nil {
		return notTFF(ctx, database, err)
	}
	for _, split := range wanted {
		if !slices.Contains(splits, split) {
			return &TFFNotFoundError{split, splits}
		}
	}
	return nil
}

// TFFNotFoundError reports a missing split.
type TFFNotFoundError struct {
	Split  string
	Splits []string // available splits
}

func (e *TFFNotFoundError) Error() string {
	return fmt.Sprintf("there is no split %q; expected one of %s", e.Split, strings.Join(lists.Map(e.Splits, strconv.Quote), ", "))
}

// checkSQLite refuses files that are not databases before the driver opens them.
func checkSQLite(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	magic := make([]byte, len(sqliteMagic))
	if _, err := io.ReadFull(file, magic); err != nil || !isSQLite(magic) {
		return errors.New("no SQLite database; unpack what comes compressed: xz --decompress --format=lzma FILE.lzma")
	}
	return nil
}

// Suffixes of files in which SQLite stores a part of a database.
const (
	WALEnd     = "-wal"     // changes not yet in the database
	JournalEnd = "-journal" // the rollback journal of an interrupted transaction
)

// UnfinishedTFF returns the error of a database with a part in another file.
func UnfinishedTFF(name, end string) error {
	return fmt.Errorf("a part of the database stands in %q, which would not be read; end the program that writes to it, and have SQLite join the two: sqlite3 %q 'PRAGMA wal_checkpoint(TRUNCATE)'", name+end, name)
}

// CheckWholeTFF returns an error for a database with a part in another file. It accepts other files,
// and databases with only empty companion files.
func CheckWholeTFF(system fs.FS, name string) error {
	for _, end := range []string{WALEnd, JournalEnd} {
		// A journal kept after its transaction ends begins with zeros.
		if beginsWith(system, name+end, func(head []byte) bool { return len(bytes.Trim(head, "\x00")) > 0 }) && beginsWith(system, name, isSQLite) {
			return UnfinishedTFF(name, end)
		}
	}
	return nil
}

// beginsWith tests the first bytes of a file, which may be missing.
func beginsWith(system fs.FS, name string, is func(head []byte) bool) bool {
	file, err := system.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	head := make([]byte, len(sqliteMagic))
	n, _ := io.ReadFull(file, head)
	return is(head[:n])
}

// sqliteMagic begins a database.
const sqliteMagic = "SQLite format 3\x00"

func isSQLite(head []byte) bool { return string(head) == sqliteMagic }

// TFFFeatures calls do with the features of a tf.train.Example (TensorFlow, core/example/example.proto):
//
//	message Example  { Features features = 1; }
//	message Features { map<string, Feature> feature = 1; }   entries: key = 1, value = 2
func TFFFeatures(example []byte, do func(name string, f TFFFeature) error) error {
	return eachMessage(example, 1, func(features []byte) error {
		return eachMessage(features, 1, func(entry []byte) error {
			name, feature, err := mapEntry(entry)
			if err != nil {
				return err
			}
			return do(name, feature)
		})
	})
}

func mapEntry(entry []byte) (name string, f TFFFeature, err error) {
	err = eachMessage(entry, 1, func(key []byte) error { name = string(key); return nil })
	if err == nil {
		err = eachMessage(entry, 2, func(value []byte) error { f = value; return nil })
	}
	return name, f, err
}

// TFFFeature is the value of a feature, encoded:
//
//	message Feature   { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3; }
//	message BytesList { repeated bytes value = 1; }
//	message FloatList { repeated float value = 1; }
//	message Int64List { repeated int64 value = 1; }
type TFFFeature []byte

// Texts returns the values of a feature of bytes.
func (f TFFFeature) Texts() (values []string, err error) {
	err = eachMessage(f, 1, func(list []byte) error {
		return eachMessage(list, 1, func(value []byte) error {
			values = append(values, string(value))
			return nil
		})
	})
	return values, err
}

// Floats returns the values of a feature of numbers, packed or not.
func (f TFFFeature) Floats() ([]float32, error) {
	return numbers(f, 2, protowire.Fixed32Type, func(data []byte) (float32, int) {
		bits, n := protowire.ConsumeFixed32(data)
		return math.Float32frombits(bits), n
	})
}

// Ints returns the values of a feature of integers, packed or not.
func (f TFFFeature) Ints() ([]int64, error) {
	return numbers(f, 3, protowire.VarintType, func(data []byte) (int64, int) {
		value, n := protowire.ConsumeVarint(data)
		return int64(value), n
	})
}

// numbers returns the values of a list, a field of a feature. consume reads one, of the wire type if they
// are not packed, and returns its length.
func numbers[T any](f TFFFeature, list protowire.Number, wire protowire.Type, consume func([]byte) (T, int)) (values []T, err error) {
	err = eachMessage(f, list, func(list []byte) error {
		return eachField(list, 1, func(kind protowire.Type, data []byte) error {
			for len(data) > 0 && (kind == protowire.BytesType || kind == wire) {
				value, n := consume(data)
				if n < 0 {
					return protowire.ParseError(n)
				}
				values, data = append(values, value), data[n:]
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

// eachField calls do for each field of a number: with its content if it has a length,
// otherwise with the encoded value.
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
