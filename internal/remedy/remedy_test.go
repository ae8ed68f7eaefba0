package remedy

import (
	"strings"
	"testing"

	"quantix/internal/fleet"
)

func TestPoolErrorHasRemedy(t *testing.T) {
	t.Parallel()
	const mount = "mount: /mnt/x: bad option; for several filesystems (e.g. nfs, cifs) you might need a /sbin/mount.<type> helper program."
	for name, c := range map[string]struct {
		status fleet.PoolHost
		kind   fleet.PoolKind
		want   string
	}{
		"no NFS helper":     {fleet.PoolHost{State: fleet.PoolFailed, Severity: fleet.SeverityBad, Status: &fleet.PoolStatus{Error: mount}}, fleet.PoolNFS, "Install nfs-common"},
		"no Gluster helper": {fleet.PoolHost{State: fleet.PoolFailed, Severity: fleet.SeverityBad, Status: &fleet.PoolStatus{Error: mount}}, fleet.PoolGluster, "Install glusterfs-client"},
		"no driver":         {fleet.PoolHost{State: fleet.PoolFailed, Severity: fleet.SeverityBad, Status: &fleet.PoolStatus{Error: "internal error: missing backend for pool type 9 (iscsi)"}}, fleet.PoolISCSI, "Install libvirt-daemon-driver-storage-iscsi"},
		"server off":        {fleet.PoolHost{State: fleet.PoolFailed, Severity: fleet.SeverityBad, Status: &fleet.PoolStatus{Error: "mount.nfs: Connection refused"}}, fleet.PoolNFS, "Check that the server runs"},
		"full":              {fleet.PoolHost{State: fleet.PoolActive, Severity: fleet.SeverityBad, Notice: "Full: 98 % used"}, fleet.PoolDir, "Delete volumes"},
		"stalled":           {fleet.PoolHost{State: fleet.PoolStalled, Severity: fleet.SeverityBad}, fleet.PoolNFS, "Check the storage"},
		"healthy":           {fleet.PoolHost{State: fleet.PoolActive, Severity: fleet.SeverityOK}, fleet.PoolNFS, ""},
		"host offline":      {fleet.PoolHost{State: fleet.PoolUnknown, Severity: fleet.SeverityUnknown, Status: &fleet.PoolStatus{Error: mount}}, fleet.PoolNFS, ""},
		"unknown cause":     {fleet.PoolHost{State: fleet.PoolFailed, Severity: fleet.SeverityBad, Status: &fleet.PoolStatus{Error: "it hums"}}, fleet.PoolNFS, ""},
	} {
		if got := ForPool(c.kind, c.status); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
