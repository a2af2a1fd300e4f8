package secrets

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"coalmine/internal/must"
)

func TestKeyIsFoundByFingerprint(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	k := must.Get(Create(path))(t)
	read := must.Get(Read(path))(t)
	if got, err := NewKeyring(read).Key(k.Fingerprint()); err != nil || got != k {
		t.Errorf("got %v, %v; want %v", got, err, k)
	}
	if mode, open := OthersCanAccess(path); open {
		t.Errorf("the key file has mode %v; others may read it", mode)
	}
	if _, err := Create(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a key was written over another: %v", err)
	}
}

func TestKeyIsNeverPrinted(t *testing.T) {
	t.Parallel()
	k := must.Get(Create(filepath.Join(t.TempDir(), "key")))(t)
	digits := fmt.Sprintf("%x", k.Bytes())
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, k); !strings.Contains(text, k.Fingerprint()) || strings.Contains(text, digits[:8]) {
			t.Errorf("%s prints %q", format, text)
		}
	}
}

func TestMissingKeyErrorNamesVariable(t *testing.T) {
	t.Parallel()
	for _, ring := range []*Keyring{nil, NewKeyring()} {
		_, err := ring.Key("abcd")
		if missing, ok := errors.AsType[*MissingKeyError](err); !ok || missing.Fingerprint != "abcd" || !strings.Contains(err.Error(), Variable) {
			t.Errorf("error %v, want one that names the key and %s", err, Variable)
		}
	}
}

func TestDamagedKeyFileIsRejected(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "ab", strings.Repeat("g", 64), strings.Repeat("a", 66), strings.Repeat("a", 64) + "\n" + strings.Repeat("b", 64)} {
		path := filepath.Join(t.TempDir(), "key")
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		if _, err := Read(path); err == nil || strings.Contains(err.Error(), "aaaa") {
			t.Errorf("%q gave error %v; want one that holds nothing of the file", text, err)
		}
	}
}

func TestGuessableKeyIsRejected(t *testing.T) {
	t.Parallel()
	for _, digits := range []string{
		strings.Repeat("00", Size), strings.Repeat("5a", Size), strings.Repeat("0123456789abcdef", 4),
		"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", "fffdfbf9f7f5f3f1efedebe9e7e5e3e1dfdddbd9d7d5d3d1cfcdcbc9c7c5c3c1",
	} {
		path := filepath.Join(t.TempDir(), "key")
		must.Do(t, os.WriteFile(path, []byte(digits+"\n"), 0o600))
		_, err := Read(path)
		if err == nil {
			t.Errorf("%s is taken", digits)
			continue
		}
		// The name of the folder is random, and may have digits of the key.
		if text := strings.ReplaceAll(err.Error(), path, "FILE"); !strings.Contains(text, "holds no random key") || strings.Contains(text, digits[:4]) {
			t.Errorf("%s: %v", digits, err)
		}
	}
}

func TestOthersCanAccessReportsOpenModes(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files have no modes here")
	}
	path := filepath.Join(t.TempDir(), "key")
	must.Get(Create(path))(t)
	for mode, want := range map[fs.FileMode]bool{0o600: false, 0o400: false, 0o640: true, 0o604: true, 0o620: true} {
		must.Do(t, os.Chmod(path, mode))
		if got, open := OthersCanAccess(path); open != want || got != mode {
			t.Errorf("mode %v: %v, %v", mode, got, open)
		}
	}
}

func TestPasswordsInAddressesAreMasked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"redis://user:secret@host:6379/0: no answer":             "redis://user:***@host:6379/0: no answer",
		"is \"s3://AK:se@cret@bucket/x\"; expected a file":       "is \"s3://AK:***@bucket/x\"; expected a file",
		"postgres://:secret@db and https://a:secret@b":           "postgres://:***@db and https://a:***@b",
		`{"server":"http://host:80","by":"me@machine"}`:          `{"server":"http://host:80","by":"me@machine"}`,
		"http://proxy:8080/@ and redis://host:6379, me@machine":  "http://proxy:8080/@ and redis://host:6379, me@machine",
		"s3://bucket/key?endpoint=http://localhost:7070":         "s3://bucket/key?endpoint=http://localhost:7070",
		"https://user@host/path":                                 "https://user@host/path",
		"rediss-sentinel://u:secret@one:1,two:2/0?master=m&ca=/": "rediss-sentinel://u:***@one:1,two:2/0?master=m&ca=/",
	} {
		got := RedactPasswords(text)
		if got != want || HasPassword(text) != (want != text) {
			t.Errorf("%s\nis %s\nwant %s", text, got, want)
		}
	}
}
