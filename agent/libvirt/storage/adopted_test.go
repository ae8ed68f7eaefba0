package storage

import (
	"slices"
	"strings"
	"testing"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

func TestHostPoolsAreExpressedAsSpecs(t *testing.T) {
	t.Parallel()
	nfs := `<source><host name='nas'/><dir path='/exports/vm'/><format type='nfs'/></source><target><path>/mnt/vm</path></target>`
	for name, c := range map[string]struct {
		pool string
		want fleet.PoolSpec
		kept []string
	}{
		"directory": {`<pool type='dir'><name>default</name><target><path>/var/lib/libvirt/images/</path></target></pool>`, fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/var/lib/libvirt/images"}, nil},
		"nfs": {
			`<pool type='netfs'><name>nas</name>` + strings.Replace(nfs, "</source>", "<protocol ver='4'/></source>", 1) + `</pool>`,
			fleet.PoolSpec{Kind: fleet.PoolNFS, Path: "/mnt/vm", Server: "nas", Export: "/exports/vm", Shared: true},
			[]string{"protocol version"},
		},
		"gluster": {
			`<pool type='netfs'><name>g</name><source><host name='g1'/><dir path='/gv0'/><format type='glusterfs'/></source><target><path>/mnt/g</path></target></pool>`,
			fleet.PoolSpec{Kind: fleet.PoolGluster, Path: "/mnt/g", Server: "g1", Volume: "gv0", Shared: true},
			nil,
		},
		"file system": {
			`<pool type='fs'><name>ssd</name><source><device path='/dev/disk/by-label/ssd'/><format type='xfs'/></source><target><path>/mnt/ssd</path></target></pool>`,
			fleet.PoolSpec{Kind: fleet.PoolFS, Path: "/mnt/ssd", Device: "/dev/disk/by-label/ssd", Format: "xfs"},
			nil,
		},
		"iscsi": {
			`<pool type='iscsi'><name>san</name><source><host name='10.0.0.5' port='3260'/><device path='iqn.2026-01.org.example:t1'/></source><target><path>/dev/disk/by-path</path></target></pool>`,
			fleet.PoolSpec{Kind: fleet.PoolISCSI, Portal: "10.0.0.5:3260", Target: "iqn.2026-01.org.example:t1", Shared: true},
			nil,
		},
		"volume group": {`<pool type='logical'><name>vg</name><source><name>vg0</name><format type='lvm2'/></source><target><path>/dev/vg0</path></target></pool>`, fleet.PoolSpec{Kind: fleet.PoolLogical, Group: "vg0"}, nil},
		"ceph":         {`<pool type='rbd'><name>ceph</name><source><host name='mon1'/><host name='mon2'/><name>vms</name></source></pool>`, fleet.PoolSpec{Kind: fleet.PoolRBD, CephPool: "vms", Monitors: "mon1,mon2", Shared: true}, nil},
	} {
		spec, adoption := hostPool(parsePool(t, c.pool))
		if spec == nil || *spec != c.want || !slices.Equal(adoption.Kept, c.kept) {
			t.Errorf("%s: the spec is %+v with %+v, want %+v with %q", name, spec, adoption, c.want, c.kept)
		}
	}
}

func TestHostPoolsThatQuantixCannotExpressAreRefusedWithReason(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ pool, words string }{
		"a type without files": {`<pool type='zfs'><name>z</name><source><name>tank</name></source></pool>`, "no pools of the type zfs"},
		"CIFS":                 {`<pool type='netfs'><name>c</name><source><host name='nas'/><dir path='/vm'/><format type='cifs'/></source><target><path>/mnt/c</path></target></pool>`, "with this source"},
		"a system directory":   {`<pool type='dir'><name>etc</name><target><path>/etc</path></target></pool>`, "belongs to the system"},
		"a name":               {`<pool type='dir'><name>My Pool</name><target><path>/srv/vm</path></target></pool>`, "lower-case letters"},
		"a secret":             {`<pool type='rbd'><name>ceph</name><source><host name='mon1'/><name>vms</name><auth type='ceph' username='admin'><secret usage='x'/></auth></source></pool>`, "secret"},
		"two devices":          {`<pool type='fs'><name>ssd</name><source><device path='/dev/a'/><device path='/dev/b'/><format type='xfs'/></source><target><path>/mnt/ssd</path></target></pool>`, "block device"},
		"another file system":  {`<pool type='fs'><name>ssd</name><source><device path='/dev/a'/><format type='vfat'/></source><target><path>/mnt/ssd</path></target></pool>`, "ext4, xfs, btrfs"},
	} {
		spec, adoption := hostPool(parsePool(t, c.pool))
		if spec != nil || !strings.Contains(adoption.Refusal, c.words) {
			t.Errorf("%s: the spec is %+v, the refusal %q; want none, and a refusal with %q", name, spec, adoption.Refusal, c.words)
		}
	}
}

func parsePool(t *testing.T, text string) (x libvirtxml.StoragePool) {
	t.Helper()
	if err := x.Unmarshal(text); err != nil {
		t.Fatal(err)
	}
	return x
}
