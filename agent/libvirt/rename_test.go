package libvirt

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"quantix/internal/fleet"
)

// With and without RENAME_NOREPLACE, a rename never replaces an existing file and never removes a new file under the
// old name.
func TestRenameNeverReplacesFile(t *testing.T) {
	t.Parallel()
	for way, rename := range map[string]func(from, to string) error{"rename": renameNoReplace, "link and unlink": linkNoReplace} {
		dir := t.TempDir()
		from, to, free := filepath.Join(dir, "from"), filepath.Join(dir, "to"), filepath.Join(dir, "free")
		for _, path := range []string{from, to} {
			if err := os.WriteFile(path, []byte(path), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := rename(from, to); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s over an existing file: %v", way, err)
		}
		if text, err := os.ReadFile(to); err != nil || string(text) != to {
			t.Errorf("%s: the existing file is %q %v", way, text, err)
		}
		if err := errors.Join(rename(from, free), unlinkOldName(from, free), unlinkOldName(from, free)); err != nil {
			t.Errorf("%s: %v", way, err)
		}
		if _, err := os.Lstat(from); !isFileMissing(err) {
			t.Errorf("%s: the old name: %v", way, err)
		}
		if err := os.WriteFile(from, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := unlinkOldName(from, free); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(from); err != nil {
			t.Errorf("%s: the new file under the old name: %v", way, err)
		}
	}
}

// If somebody else creates the final file just as a volume is completed, either the file or the volume gets the name.
func TestFinalFileNameNeverReplacesFile(t *testing.T) {
	t.Parallel()
	p := localVolume{pool: fleet.Pool{Spec: fleet.PoolSpec{Path: t.TempDir()}}, volume: "disk.qcow2"}
	for range 3000 {
		if err := os.WriteFile(p.unfinished().path(), []byte("ours"), 0o600); err != nil {
			t.Fatal(err)
		}
		begin, made := make(chan struct{}), make(chan error, 1)
		go func() {
			<-begin
			f, err := os.OpenFile(p.path(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err == nil {
				err = f.Close()
			}
			made <- err
		}()
		close(begin)
		refused := renameToFinal(p)
		theirs := <-made == nil
		if theirs != (refused != nil) {
			t.Fatalf("created by the other side: %v, putInPlace: %v", theirs, refused)
		}
		if err := errors.Join(os.Remove(p.path()), os.RemoveAll(p.unfinished().path())); err != nil {
			t.Fatal(err)
		}
	}
}
