package secrets

import "testing"

func TestPasswordsOfAddressesAreTakenOut(t *testing.T) {
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
