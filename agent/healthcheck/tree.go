package healthcheck

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// tree is the directory that contains the host's /sys and /proc.
type tree string

// maxFileBytes is the maximum number of bytes read from a file of sysfs or procfs.
const maxFileBytes = 64 << 10

func (t tree) path(rel ...string) string {
	return filepath.Join(append([]string{string(t)}, rel...)...)
}

// line returns a file's content without surrounding space; false: it cannot be read.
func (t tree) line(rel ...string) (string, bool) {
	f, err := os.Open(t.path(rel...))
	if err != nil {
		return "", false
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes))
	return strings.TrimSpace(string(data)), err == nil
}

// number returns a file's content as a number that is not negative; false: it is none.
func (t tree) number(rel ...string) (float64, bool) {
	text, ok := t.line(rel...)
	n, err := strconv.ParseUint(text, 10, 64)
	return float64(n), ok && err == nil
}

func (t tree) exists(rel ...string) bool {
	_, err := os.Stat(t.path(rel...))
	return err == nil
}

// names returns a directory's entries, sorted; none if it does not exist.
func (t tree) names(rel ...string) []string {
	entries, err := os.ReadDir(t.path(rel...))
	if err != nil {
		return nil
	}
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = e.Name()
	}
	return out
}

// linkName returns the last element of a symbolic link's target; empty: there is no link.
func (t tree) linkName(rel ...string) string {
	to, err := os.Readlink(t.path(rel...))
	if err != nil {
		return ""
	}
	return filepath.Base(to)
}
