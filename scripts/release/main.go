// Command release builds the archives of a release into a folder: a static binary for each platform
// with licenses, man pages and completions, a bill of materials, a container image of the programs for Linux, and
// the checksums of all. The same commit and the same Go give the same bytes in any folder.
package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"coalmine/internal/build"
)

func main() {
	log.SetFlags(0)
	folder := flag.String("o", "dist", "write to this folder, which must not exist")
	platforms := flag.String("platforms", strings.Join(build.Platforms, ","), "build for these")
	flag.Parse()
	if err := release(*folder, strings.Split(*platforms, ",")); err != nil {
		log.Fatal(err)
	}
}

// release builds for all platforms.
func release(folder string, platforms []string) error {
	made, err := committed()
	if err != nil {
		return err
	}
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) // it is below the directory of temporary files
	common, err := accompanying(work, made)
	if err != nil {
		return err
	}
	modules, err := output(nil, "scripts/modfile.sh")
	if err != nil {
		return err
	}
	var sums strings.Builder
	linux := map[string][]byte{} // programs of the image, by architecture
	for _, platform := range platforms {
		system, processor, ok := strings.Cut(platform, "/")
		if !ok {
			return fmt.Errorf("-platforms %q: expected systems and processors such as linux/amd64", platform)
		}
		program, err := compiled(work, strings.TrimSpace(string(modules)), system, processor)
		if err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
		if system == "linux" {
			linux[processor] = program
		}
		files, err := archive(system, processor, program, common, made)
		if err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
		if err := write(folder, files, &sums); err != nil {
			return err
		}
	}
	if len(linux) > 0 {
		content, err := containerImage(linux, common, made)
		if err != nil {
			return fmt.Errorf("container image: %w", err)
		}
		if err := write(folder, []file{{name: fmt.Sprintf("coalmine-%s-image.tar", build.Version), content: content}}, &sums); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(folder, "SHA256SUMS"), []byte(sums.String()), 0o644)
}

// write writes files of a release, and adds their checksums.
func write(folder string, files []file, sums *strings.Builder) error {
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(folder, f.name), f.content, 0o644); err != nil {
			return err
		}
		fmt.Fprintf(sums, "%x  %s\n", sha256.Sum256(f.content), f.name)
	}
	return nil
}

// containerImage is the image of a release, with the licenses and the certificates of authorities.
func containerImage(programs map[string][]byte, beside []file, made time.Time) ([]byte, error) {
	files := []file{{name: "etc/ssl/certs/ca-certificates.crt", content: authorities()}}
	for _, f := range beside {
		if f.name == "LICENSE" || f.name == "NOTICE" {
			files = append(files, f)
		}
	}
	return newImage(programs, files, made)
}

// committed returns the time of the checked-out commit. It is an error if files are modified.
func committed() (time.Time, error) {
	changes, err := output(nil, "git", "status", "--porcelain")
	if err != nil {
		return time.Time{}, err
	}
	if len(changes) > 0 {
		return time.Time{}, fmt.Errorf("a release is built of a commit, but files are modified; commit or remove them:\n%s", changes)
	}
	text, err := output(nil, "git", "show", "--no-patch", "--format=%ct")
	if err != nil {
		return time.Time{}, err
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return time.Unix(seconds, 0).UTC(), err
}

// output runs a program with additional environment variables, and returns its output.
func output(environment []string, name string, arguments ...string) ([]byte, error) {
	c := exec.Command(name, arguments...)
	c.Env, c.Stderr = append(os.Environ(), environment...), os.Stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(c.Args, " "), err)
	}
	return out, nil
}

// file is a file of an archive.
type file struct {
	name    string
	content []byte
	program bool
}

// accompanying are the files next to the program in all archives.
func accompanying(work string, made time.Time) ([]file, error) {
	if _, err := output([]string{fmt.Sprintf("SOURCE_DATE_EPOCH=%d", made.Unix()), "CGO_ENABLED=0"},
		"go", "run", "-tags", build.ReleaseTags+",man", "./cmd/coalmine", "man", filepath.Join(work, "beside")); err != nil {
		return nil, err
	}
	beside, err := read(filepath.Join(work, "beside"))
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"CHANGELOG.md", "LICENSE", "README.md"} {
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		beside = append(beside, file{name: name, content: content})
	}
	return beside, nil
}

// read reads all files below a folder, sorted by name.
func read(folder string) (files []file, err error) {
	err = filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		inside, _ := filepath.Rel(folder, path) // path lies below folder
		files = append(files, file{name: filepath.ToSlash(inside), content: content})
		return err
	})
	return files, err
}

// compiled builds the program for a platform with the module file that scripts/modfile.sh wrote.
func compiled(work, modules, system, processor string) ([]byte, error) {
	path := filepath.Join(work, system, processor, "coalmine")
	if _, err := output([]string{"GOOS=" + system, "GOARCH=" + processor, "CGO_ENABLED=0"},
		"go", "build", "-trimpath", "-buildvcs=true", "-tags", build.ReleaseTags, "-modfile="+modules, "-ldflags=-s -w", "-o", path, "./cmd/coalmine"); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// archive returns the archive of a platform's program and its bill of materials.
func archive(system, processor string, binary []byte, beside []file, made time.Time) ([]file, error) {
	program := "coalmine"
	if system == "windows" {
		program += ".exe"
	}
	bill, err := billOfMaterials(binary, made)
	if err != nil {
		return nil, err
	}
	files := append([]file{{program, binary, true}}, beside...)
	name := fmt.Sprintf("coalmine-%s-%s-%s", build.Version, system, processor)
	pack, end := tarred, ".tar.gz"
	if system == "windows" {
		pack, end = zipped, ".zip"
	}
	packed, err := pack(name, files, made)
	return []file{{name: name + end, content: packed}, {name: name + ".cdx.json", content: bill}}, err
}

// mode is that of a file in an archive.
func (f *file) mode() fs.FileMode {
	if f.program {
		return 0o755
	}
	return 0o644
}

// tarred packs files into a folder with the given name, owned by root.
func tarred(folder string, files []file, made time.Time) ([]byte, error) {
	var b bytes.Buffer
	packed, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level exists
	inside := make([]file, len(files))
	for i, f := range files {
		inside[i] = file{folder + "/" + f.name, f.content, f.program}
	}
	err := errors.Join(writeTar(packed, inside, nil, made), packed.Close())
	return b.Bytes(), err
}

// writeTar writes folders, and then files owned by root.
func writeTar(to io.Writer, files []file, folders []tar.Header, made time.Time) error {
	w := tar.NewWriter(to)
	for _, h := range folders {
		h.Typeflag, h.ModTime, h.Format = tar.TypeDir, made, tar.FormatUSTAR
		if err := w.WriteHeader(&h); err != nil {
			return err
		}
	}
	for _, f := range files {
		header := tar.Header{Name: f.name, Mode: int64(f.mode()), Size: int64(len(f.content)), ModTime: made, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(&header); err != nil {
			return err
		}
		if _, err := w.Write(f.content); err != nil {
			return err
		}
	}
	return w.Close()
}

// zipped is tarred, as ZIP.
func zipped(folder string, files []file, made time.Time) ([]byte, error) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range files {
		header := zip.FileHeader{Name: folder + "/" + f.name, Method: zip.Deflate, Modified: made}
		header.SetMode(f.mode())
		w, err := z.CreateHeader(&header)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return b.Bytes(), err
}
