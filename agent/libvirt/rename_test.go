package libvirt

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A file never takes the place of another, in whichever of both ways it is renamed; what came under the old name meanwhile stays.
func TestAFileIsNeverRenamedOverAnother(t *testing.T) {
	t.Parallel()
	for way, rename := range map[string]func(from, to string) error{"at once": renameAlone, "by a second name": linkAlone} {
		dir := t.TempDir()
		from, to, free := filepath.Join(dir, "from"), filepath.Join(dir, "to"), filepath.Join(dir, "free")
		for _, path := range []string{from, to} {
			if err := os.WriteFile(path, []byte(path), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := rename(from, to); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s, over another: %v", way, err)
		}
		if text, err := os.ReadFile(to); err != nil || string(text) != to {
			t.Errorf("%s: the other is %q %v", way, text, err)
		}
		if err := errors.Join(rename(from, free), dropName(from, free), dropName(from, free)); err != nil {
			t.Errorf("%s: %v", way, err)
		}
		if _, err := os.Lstat(from); !isMissing(err) {
			t.Errorf("%s: the old name: %v", way, err)
		}
		if err := os.WriteFile(from, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := dropName(from, free); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(from); err != nil {
			t.Errorf("%s: what came under the old name: %v", way, err)
		}
	}
}
