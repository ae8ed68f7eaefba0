package storage

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// Each pool kind has a definition in testdata/pools.xml. A new kind without one fails the test.
func TestPoolDefinitionsMatchGoldenFile(t *testing.T) {
	t.Parallel()
	specs := map[fleet.PoolKind]fleet.PoolSpec{
		fleet.PoolDir:     {Path: "/srv/vm/"},
		fleet.PoolFS:      {Path: "/srv/vm", Device: "/dev/disk/by-label/vm", Format: "xfs"},
		fleet.PoolNFS:     {Path: "/srv/vm", Server: "nas-1.example", Export: "/exports/vm/"},
		fleet.PoolGluster: {Path: "/srv/vm", Server: "gluster-1.example", Volume: "gv0"},
		fleet.PoolISCSIDirect: {
			Portal: "10.0.0.5", Target: "iqn.2026-01.org.example:vms", Initiator: "iqn.2026-01.org.example:quantix", User: "quantix",
		},
		fleet.PoolISCSI:   {Portal: "[fd00::5]:3261", Target: "iqn.2026-01.org.example:vms", User: "quantix"},
		fleet.PoolRBD:     {Monitors: "10.0.0.1, 10.0.0.2:6789", CephPool: "vms", User: "libvirt"},
		fleet.PoolLogical: {Group: "vg-vms"},
	}
	var all strings.Builder
	for _, kind := range fleet.PoolTypes() {
		spec, ok := specs[kind.Kind]
		if !ok {
			t.Fatalf("the test has no spec of pool kind %q", kind.Kind)
		}
		spec.Kind = kind.Kind
		x := poolXML(fleet.Pool{ID: "01980000-0000-7000-8000-000000000001", Name: string(kind.Kind), Spec: spec})
		text, err := x.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(text + "\n")
		for other, s := range specs {
			s.Kind = other
			if same := isSameStorage(x, s); same != (other == kind.Kind) {
				t.Errorf("sameSource of the %s definition and the %s spec: %t", kind.Kind, other, same)
			}
		}
	}
	want, err := os.ReadFile("testdata/pools.xml")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), all.String()); diff != "" {
		t.Errorf("the definitions (-file +now):\n%s", diff)
	}
}

func TestPoolGapsNameMissingPackages(t *testing.T) {
	t.Parallel()
	with := func(programs ...string) func(string) (string, error) {
		return func(p string) (string, error) {
			if slices.Contains(programs, p) {
				return "/sbin/" + p, nil
			}
			return "", exec.ErrNotFound
		}
	}
	all := []string{"mount.nfs", "mount.glusterfs", "iscsiadm", "lvm"}
	for what, c := range map[string]struct {
		missing  []string
		lookPath func(string) (string, error)
		want     []fleet.PoolGap
	}{
		"driver missing": {[]string{"rbd"}, with(all...), []fleet.PoolGap{
			{Kind: fleet.PoolRBD, Why: "This libvirt has no rbd driver. Install libvirt-daemon-driver-storage-rbd, and qemu-block-extra (Debian, Ubuntu) or qemu-block-rbd (Fedora, Red Hat)."},
		}},
		"mount program missing": {nil, with(all[1:]...), []fleet.PoolGap{{Kind: fleet.PoolNFS, Why: "mount.nfs is missing. Install nfs-common (Debian, Ubuntu) or nfs-utils (Fedora, Red Hat)."}}},
		"driver without known package": {[]string{"fs"}, with(all...), []fleet.PoolGap{
			{Kind: fleet.PoolFS, Why: "This libvirt has no fs driver. Install its storage drivers."},
		}},
	} {
		if diff := cmp.Diff(c.want, PoolGaps(c.missing, c.lookPath)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

// Pools that differ in any part of their storage's identity are different pools. The spelling of the file system's type
// does not matter.
func TestPoolsWithDifferentStorageDiffer(t *testing.T) {
	t.Parallel()
	const fs = `<pool type="fs"><source><device path="/dev/sdb1"/><format type="%"/></source><target><path>/srv/vm</path></target></pool>`
	const net = `<pool type="netfs"><source><host name="nas"/><dir path="/vm"/><format type="%"/></source><target><path>/srv/vm/</path></target></pool>`
	onDevice := fleet.PoolSpec{Kind: fleet.PoolFS, Path: "/srv/vm", Device: "/dev/sdb1", Format: "ext4"}
	nfs := fleet.PoolSpec{Kind: fleet.PoolNFS, Path: "/srv/vm", Server: "nas", Export: "/vm"}
	gluster := fleet.PoolSpec{Kind: fleet.PoolGluster, Path: "/srv/vm", Server: "nas", Volume: "vm"}
	for what, c := range map[string]struct {
		xml  string
		spec fleet.PoolSpec
		want bool
	}{
		"the same device":               {strings.ReplaceAll(fs, "%", "ext4"), onDevice, true},
		"type detected by mount":        {strings.ReplaceAll(fs, "%", "auto"), onDevice, true},
		"another device":                {strings.ReplaceAll(strings.ReplaceAll(fs, "%", "ext4"), "sdb1", "sdb2"), onDevice, false},
		"another path":                  {strings.ReplaceAll(strings.ReplaceAll(fs, "%", "ext4"), "/srv/vm", "/srv/other"), onDevice, false},
		"the same export":               {strings.ReplaceAll(net, "%", "nfs"), nfs, true},
		"export without a type":         {strings.ReplaceAll(net, "%", "auto"), nfs, true},
		"gluster volume instead of NFS": {strings.ReplaceAll(net, "%", "glusterfs"), nfs, false},
		"the same volume":               {strings.ReplaceAll(net, "%", "glusterfs"), gluster, true},
		"NFS export instead of gluster": {strings.ReplaceAll(net, "%", "nfs"), gluster, false},
		"another server":                {strings.ReplaceAll(strings.ReplaceAll(net, "%", "nfs"), `"nas"`, `"nas-2"`), nfs, false},
		"an additional server":          {strings.ReplaceAll(strings.ReplaceAll(net, "%", "nfs"), `<dir`, `<host name="nas-2"/><dir`), nfs, false},
		"a directory at the same path":  {`<pool type="dir"><target><path>/srv/vm</path></target></pool>`, onDevice, false},
	} {
		var x libvirtxml.StoragePool
		if err := x.Unmarshal(c.xml); err != nil {
			t.Fatal(err)
		}
		if got := isSameStorage(x, c.spec); got != c.want {
			t.Errorf("%s: %t, want %t", what, got, c.want)
		}
	}
}
