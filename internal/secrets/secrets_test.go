package secrets

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAKeyIsFoundByItsFingerprint(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	k, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	ring, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ring.Key(k.Fingerprint()); err != nil || got != k {
		t.Errorf("got %v, %v; want %v", got, err, k)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("the key file has mode %v (%v); others may read it", info.Mode(), err)
	}
	if _, err := Create(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a key was written over another: %v", err)
	}
}

func TestAKeyIsNeverPrinted(t *testing.T) {
	t.Parallel()
	k, err := Create(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	digits := fmt.Sprintf("%x", k.Bytes())
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, k); !strings.Contains(text, k.Fingerprint()) || strings.Contains(text, digits[:8]) {
			t.Errorf("%s prints %q", format, text)
		}
	}
}

func TestAMissingKeySaysHowToGiveIt(t *testing.T) {
	t.Parallel()
	for _, ring := range []*Keyring{nil, NewKeyring()} {
		_, err := ring.Key("abcd")
		if missing, ok := errors.AsType[*MissingKeyError](err); !ok || missing.Fingerprint != "abcd" || !strings.Contains(err.Error(), Variable) {
			t.Errorf("error %v, want one that names the key and %s", err, Variable)
		}
	}
}

func TestADamagedKeyFileIsNoKey(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "ab", strings.Repeat("g", 64), strings.Repeat("a", 66), strings.Repeat("a", 64) + "\n" + strings.Repeat("b", 64)} {
		path := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); err == nil || strings.Contains(err.Error(), "aaaa") {
			t.Errorf("%q gave error %v; want one that holds nothing of the file", text, err)
		}
	}
}
