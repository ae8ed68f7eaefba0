package pooldir

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
)

const (
	ownPoolID   = fleet.PoolID("01994c2e-0000-7000-8000-000000000001")
	otherPoolID = fleet.PoolID("01994c2e-0000-7000-8000-000000000002")
)

func TestPoolDirectoryIsVerified(t *testing.T) {
	t.Parallel()
	disk, root := Mount{"/srv", "ext4", "/dev/sdb1"}, Mount{"/", "ext4", "/dev/sda1"}
	nas := Mount{"/srv/vm", "nfs4", "nas:/vm"}
	marked, unmarked := &RecordedDir{true, disk, 7}, &RecordedDir{false, nas, 7}
	for name, c := range map[string]struct {
		place *RecordedDir
		now   DirReading
		want  string
	}{
		"never used, missing":                     {nil, DirReading{}, ""},
		"never used, exists":                      {nil, DirReading{Exists: true, Mount: root, Inode: 1}, ""},
		"never used, its own marker":              {nil, DirReading{Exists: true, Marker: ownPoolID}, ""},
		"never used, another pool's":              {nil, DirReading{Exists: true, Marker: otherPoolID}, string(otherPoolID)},
		"its marker":                              {marked, DirReading{true, ownPoolID, disk, 7, "", nil}, ""},
		"its marker on another device":            {marked, DirReading{true, ownPoolID, Mount{"/srv", "ext4", "/dev/sdc1"}, 9, "", nil}, ""},
		"another pool's marker":                   {marked, DirReading{true, otherPoolID, disk, 7, "", nil}, "belongs to another pool"},
		"missing":                                 {marked, DirReading{}, "is missing. When"},
		"recreated directory":                     {marked, DirReading{true, "", disk, 8, "", nil}, "its marker .quantix-pool is missing"},
		"only the marker is missing":              {marked, DirReading{true, "", disk, 7, "", nil}, "its marker .quantix-pool is missing"},
		"not mounted":                             {marked, DirReading{true, "", root, 8, "", nil}, "is not mounted: ext4 of /dev/sdb1 must be mounted at /srv"},
		"another file system mounted over it":     {marked, DirReading{true, "", Mount{"/srv/vm", "tmpfs", "tmpfs"}, 1, "", nil}, "hides /srv/vm: tmpfs, mounted at /srv/vm"},
		"another file system at its mount":        {marked, DirReading{true, "", Mount{"/srv", "xfs", "/dev/sdc1"}, 1, "", nil}, "Another file system hides /srv/vm: xfs of /dev/sdc1, mounted at /srv"},
		"no marker could be written":              {unmarked, DirReading{true, "", nas, 7, "", nil}, ""},
		"no marker, another directory":            {unmarked, DirReading{true, "", nas, 8, "", nil}, "not the one"},
		"no marker, not mounted":                  {unmarked, DirReading{true, "", disk, 7, "", nil}, "is not mounted: nfs4 of nas:/vm"},
		"no marker, marked by another pool since": {unmarked, DirReading{true, otherPoolID, nas, 7, "", nil}, "belongs to another pool"},
	} {
		err := RecordedPool{ID: ownPoolID, Path: "/srv/vm", Place: c.place}.CheckDir(c.now)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A pool stays stopped only if somebody else stopped it.
func TestPoolStoppedOutsideQuantixStaysStopped(t *testing.T) {
	t.Parallel()
	used := &RecordedDir{Marked: true}
	for name, c := range map[string]struct {
		kept      RecordedPool
		autostart bool
		want      bool
	}{
		"never active":                         {RecordedPool{}, true, false},
		"active before, same boot":             {RecordedPool{Place: used, Boot: "now"}, true, true},
		"failed":                               {RecordedPool{Place: used, Boot: "now", Failing: true}, true, false},
		"host booted":                          {RecordedPool{Place: used, Boot: "before"}, true, false},
		"booted, autostart removed":            {RecordedPool{Place: used, Boot: "before"}, false, true},
		"stopped by others before the boot":    {RecordedPool{Place: used, Boot: "before", ByOthers: true}, true, false},
		"failed before the boot, no autostart": {RecordedPool{Place: used, Boot: "before", Failing: true}, false, false},
	} {
		if got := c.kept.IsStoppedByOthers("now", c.autostart); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestPoolMarkerIsWrittenOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	see := func() DirReading {
		t.Helper()
		s, err := InspectDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := see(); !s.Exists || s.Marker != "" || s.Inode == 0 || s.Mount.Point == "" {
		t.Errorf("a new directory is %+v", s)
	}
	for _, id := range []fleet.PoolID{ownPoolID, ownPoolID, otherPoolID} {
		if err := WriteMarker(dir, id); err != nil {
			t.Fatal(err)
		}
		if s := see(); s.Marker != ownPoolID {
			t.Errorf("marked by %s it is %+v", id, s)
		}
	}
	for _, id := range []fleet.PoolID{otherPoolID, ownPoolID, ownPoolID} {
		if err := RemoveMarker(dir, id); err != nil {
			t.Fatal(err)
		}
		if s := see(); (s.Marker == ownPoolID) != (id == otherPoolID) {
			t.Errorf("unmarked by %s it is %+v", id, s)
		}
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(dir, MarkerFile)); err != nil {
		t.Fatal(err)
	}
	if s := see(); s.Marker != "" {
		t.Errorf("a link was followed: %+v", s)
	}
	if err := WriteMarker(dir, ownPoolID); err == nil {
		t.Error("a link out of the directory was written through")
	}
	if s, err := InspectDir(filepath.Join(secret, "below")); err != nil || s.Exists {
		t.Errorf("below a file: %+v, %v", s, err)
	}
}

func TestMountAndFileSystemAreReadFromMountTable(t *testing.T) {
	t.Parallel()
	const table = `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 ro,errors=remount-ro
90 22 0:40 / /srv/my\040vm rw shared:2 master:1 - nfs4 nas:/a\134b rw
91 90 0:41 / /srv/my\040vm rw - tmpfs tmpfs rw
92 22 8:1 /srv /mnt/bind rw - ext4 /dev/sda1 rw
93 22 0:40 / /srv/second rw - nfs nas:/a/2 rw
`
	for id, want := range map[string]struct {
		Mount
		options string
		on      *fleet.FileSystem
	}{
		"22": {Mount{"/", "ext4", "/dev/sda1"}, "relatime,ro,errors=remount-ro", &fleet.FileSystem{ID: "8:1"}}, "92": {Mount{"/mnt/bind", "ext4", "/dev/sda1"}, "rw", &fleet.FileSystem{ID: "8:1"}},
		"90": {Mount{"/srv/my vm", "nfs4", `nas:/a\b`}, "rw", &fleet.FileSystem{ID: "nfs nas:/a/2", Shared: true}},
		"93": {Mount{"/srv/second", "nfs", "nas:/a/2"}, "rw", &fleet.FileSystem{ID: "nfs nas:/a/2", Shared: true}},
		"91": {Mount{"/srv/my vm", "tmpfs", "tmpfs"}, "rw", &fleet.FileSystem{ID: "0:41"}}, "9": {},
	} {
		if got, on, options := findMount(table, id); got != want.Mount || options != want.options || !reflect.DeepEqual(on, want.on) {
			t.Errorf("mount %s is %+v on %+v with %q, want %+v", id, got, on, options, want)
		}
	}
}

// A probe leaves no file. Full storage, or storage that only guests may write to, is distinguished from read-only
// storage.
func TestProbeDistinguishesReadOnlyStorage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p, err := ProbeDir(dir)
	if err != nil || p.Write <= 0 || p.Read <= 0 || p.Write > time.Minute {
		t.Errorf("the probe took %+v: %v", p, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the probe left %v, %v", left, err)
	}
	if _, err := ProbeDir(filepath.Join(dir, "gone")); err == nil {
		t.Error("the probe wrote to a removed directory")
	}
	for name, ours := range map[string]bool{MarkerFile: true, probePrefix + "X": true, "disk.qcow2": false, "quantix-probe-1": false} {
		if IsQuantixFile(name) != ours {
			t.Errorf("that %s is ours is %t", name, !ours)
		}
	}
}

func TestSmallChangesOfProbeDurationsAreNotReported(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reported, want int64
		now            time.Duration
	}{
		{0, 700, 700 * time.Microsecond},
		{700, 700, 400 * time.Microsecond},
		{700, 700, 1399 * time.Microsecond},
		{700, 1400, 1400 * time.Microsecond},
		{700, 350, 350 * time.Microsecond},
		{700, 0, 0},
		{0, 0, 0},
	} {
		if got := SteadyMicroseconds(c.reported, c.now); got != c.want {
			t.Errorf("after %d µs, %s is reported as %d, want %d", c.reported, c.now, got, c.want)
		}
	}
}
