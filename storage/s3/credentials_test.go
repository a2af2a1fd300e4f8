package s3_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/s3"
)

// refuseKeysBut answers with the error of expired credentials unless a request carries a key.
func (f *fakeServer) refuseKeysBut(key string) {
	f.answer(func(_ int, w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.Header.Get("Authorization"), "Credential="+key+"/") {
			return false
		}
		fail(w, http.StatusBadRequest, "ExpiredToken")
		return true
	})
}

// environment has the credentials of the process come from a file alone.
func environment(t *testing.T, file string) {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
}

func TestCredentialsFileIsReadAgainOnRefusal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "credentials")
	environment(t, file)
	f := startFake(t)
	f.refuseKeysBut("first")
	writeKeys(t, file, "first")
	config := f.config()
	config.AccessKey, config.SecretKey = "", ""
	s := must.Get(s3.OpenConfig(t.Context(), config))(t)
	f.refuseKeysBut("second")
	if err := s.Create(t.Context(), "x", []byte("x")); !storage.IsTrouble(err) || !strings.Contains(err.Error(), "expired") {
		t.Errorf("with expired credentials: %v", err)
	}
	writeKeys(t, file, "second")
	if err := s.Put(t.Context(), "y", strings.NewReader("y"), storage.Durable); err != nil {
		t.Errorf("with new credentials in the file: %v", err)
	}
	f.refuseKeysBut("third")
	writeKeys(t, file, "third")
	if _, err := s.Head(t.Context(), "y"); storage.IsTrouble(err) {
		_, err = s.Head(t.Context(), "y") // the answer to HEAD has no code that would make the client retry
		if err != nil {
			t.Errorf("at the second try with new credentials: %v", err)
		}
	}
	must.Do(t, os.Remove(file))
	f.refuseKeysBut("fourth")
	if err := s.Create(t.Context(), "z", []byte("z")); !storage.IsTrouble(err) {
		t.Errorf("while the file is away: %v", err)
	}
}

func writeKeys(t *testing.T, file, key string) {
	t.Helper()
	text := fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = secret\n", key)
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
}

func TestContainerCredentialsAreRenewedOnRefusal(t *testing.T) {
	environment(t, filepath.Join(t.TempDir(), "none"))
	renewed := 0
	role := startFake(t)
	role.answer(func(n int, w http.ResponseWriter, _ *http.Request) bool {
		renewed = n
		fmt.Fprintf(w, `{"AccessKeyId": "role%d", "SecretAccessKey": "secret", "Token": "token", "Expiration": %q}`,
			n, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
		return true
	})
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", role.URL+"/role")
	f := startFake(t)
	config := f.config()
	config.AccessKey, config.SecretKey = "", ""
	s := must.Get(s3.OpenConfig(t.Context(), config))(t)
	f.refuseKeysBut("role9")
	role.answer(func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		fmt.Fprintf(w, `{"AccessKeyId": "role9", "SecretAccessKey": "secret", "Token": "token", "Expiration": %q}`,
			time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
		return true
	})
	if err := s.Put(t.Context(), "x", strings.NewReader("x"), storage.Durable); err != nil {
		t.Errorf("after the first credentials, asked for %d times, had expired: %v", renewed, err)
	}
}
