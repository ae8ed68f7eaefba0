package image

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"quantix/internal/fleet"
)

const (
	opinionLimit = 10 * time.Second
	opinionBytes = 1 << 20
	opinionFile  = "/proc/self/fd/3"
)

// errNoOpinion says that nobody else can be asked on this host.
var errNoOpinion = errors.New("qemu-img is not installed here, so only Quantix itself has looked at the image")

// NoOpinion reports whether the error is that qemu-img is missing: the own reading decides then.
func NoOpinion(err error) bool { return errors.Is(err, errNoOpinion) }

// SecondOpinion asks qemu-img about an open file, as nobody, with few means, and in an empty directory. It must take the file for the same,
// and know of no other.
func SecondOpinion(ctx context.Context, file *os.File, f Facts) error {
	program, err := exec.LookPath("qemu-img")
	if err != nil {
		return errNoOpinion
	}
	ctx, cancel := context.WithTimeout(ctx, opinionLimit)
	defer cancel()
	dir, err := os.MkdirTemp("", "quantix-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // who is nobody must be able to stand in it
		return err
	}
	args := []string{program, "info", "-U", "--output=json", "-f", f.Format, opinionFile}
	if limit, err := exec.LookPath("prlimit"); err == nil {
		args = append([]string{limit, "--as=1073741824", "--cpu=10", "--nofile=64", "--core=0", "--fsize=0", "--"}, args...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // fixed words
	cmd.Dir, cmd.Env, cmd.ExtraFiles = dir, []string{"LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, []*os.File{file}
	cmd.WaitDelay = time.Second
	var out, said bounded
	cmd.Stdout, cmd.Stderr = &out, &said
	back, err := asNobody(cmd, file)
	if err != nil {
		return err
	}
	err = errors.Join(cmd.Run(), back())
	switch {
	case ctx.Err() != nil:
		return doubt("qemu-img did not come to an end with it within %s, so it is not taken.", opinionLimit)
	case err != nil:
		return doubt("qemu-img does not take it for a %s image: %s", f.Format, strings.TrimSpace(said.String()+" ("+err.Error()+")"))
	}
	return agrees(out.Bytes(), f)
}

func doubt(format string, args ...any) error {
	return fleet.Errorf(fleet.Invalid, "What came is not taken: "+format, args...)
}

// agrees compares what qemu-img said with the facts.
func agrees(text []byte, f Facts) error {
	var said map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&said); err != nil {
		return fmt.Errorf("read what qemu-img says: %w", err)
	}
	if name := names(said); name != "" {
		return doubt("qemu-img finds that it refers to another file, %q.", name)
	}
	if said["format"] != f.Format {
		return doubt("qemu-img takes it for %v, but its header says %s.", said["format"], f.Format)
	}
	size := f.Size
	if f.Format == "raw" {
		size = (size + 511) / 512 * 512
	}
	if number, _ := said["virtual-size"].(json.Number); number.String() != strconv.FormatInt(size, 10) && f.Format != "vpc" { // of which some products mean more than they write
		return doubt("qemu-img gives it %v bytes, but its header %d.", said["virtual-size"], size)
	}
	if crypt, _ := said["encrypted"].(bool); crypt {
		return doubt("qemu-img finds that it is encrypted.")
	}
	return nil
}

// names is a file, other than the one that was asked about, that is named anywhere in it.
func names(v any) string {
	switch v := v.(type) {
	case map[string]any:
		for key, below := range v {
			text, isText := below.(string)
			switch {
			case isText && strings.Contains(key, "filename") && !own(text), isText && key == "data-file":
				return text
			}
			if name := names(below); name != "" {
				return name
			}
		}
	case []any:
		for _, below := range v {
			if name := names(below); name != "" {
				return name
			}
		}
	}
	return ""
}

// own reports whether the name is that of the file that was asked about, or says how that is read and nothing else.
func own(name string) bool {
	spelt, isGraph := strings.CutPrefix(name, "json:")
	if !isGraph {
		return name == opinionFile
	}
	var node any
	return json.Unmarshal([]byte(spelt), &node) == nil && names(node) == ""
}

// bounded keeps the beginning of what is written to it.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	room := opinionBytes - b.Len()
	b.Buffer.Write(p[:min(len(p), max(room, 0))])
	if room < len(p) {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}
