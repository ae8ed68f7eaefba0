package fleet

import (
	"strings"
	"testing"
)

func TestPoolErrorHasRemedy(t *testing.T) {
	t.Parallel()
	const mount = "mount: /mnt/x: bad option; for several filesystems (e.g. nfs, cifs) you might need a /sbin/mount.<type> helper program."
	for name, c := range map[string]struct {
		status PoolHost
		kind   PoolKind
		want   string
	}{
		"no NFS helper":     {PoolHost{State: PoolFailed, Severity: SeverityBad, Status: &PoolStatus{Error: mount}}, PoolNFS, "Install nfs-common"},
		"no Gluster helper": {PoolHost{State: PoolFailed, Severity: SeverityBad, Status: &PoolStatus{Error: mount}}, PoolGluster, "Install glusterfs-client"},
		"no driver":         {PoolHost{State: PoolFailed, Severity: SeverityBad, Status: &PoolStatus{Error: "internal error: missing backend for pool type 9 (iscsi)"}}, PoolISCSI, "Install libvirt-daemon-driver-storage-iscsi"},
		"server off":        {PoolHost{State: PoolFailed, Severity: SeverityBad, Status: &PoolStatus{Error: "mount.nfs: Connection refused"}}, PoolNFS, "Check that the server runs"},
		"full":              {PoolHost{State: PoolActive, Severity: SeverityBad, Notice: "Full: 98 % used"}, PoolDir, "Delete volumes"},
		"stalled":           {PoolHost{State: PoolStalled, Severity: SeverityBad}, PoolNFS, "Check the storage"},
		"healthy":           {PoolHost{State: PoolActive, Severity: SeverityOK}, PoolNFS, ""},
		"host offline":      {PoolHost{State: PoolUnknown, Severity: SeverityUnknown, Status: &PoolStatus{Error: mount}}, PoolNFS, ""},
		"unknown cause":     {PoolHost{State: PoolFailed, Severity: SeverityBad, Status: &PoolStatus{Error: "it hums"}}, PoolNFS, ""},
	} {
		if got := c.status.Remedy(c.kind); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
