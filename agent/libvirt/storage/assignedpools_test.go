package storage

import (
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// A file or block address of an assigned pool belongs to the pool's volume, and the applied record gives the same path.
func TestAssignedPoolsFindVolumesByPath(t *testing.T) {
	t.Parallel()
	files := fleet.Pool{ID: "01a20f00-0000-7000-8000-0000000000aa", Name: "fast", Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/pool/"}}
	blocks := fleet.Pool{ID: "01a20f00-0000-7000-8000-0000000000ab", Name: "lvm", Spec: fleet.PoolSpec{Kind: fleet.PoolLogical, Group: "vg0"}}
	var pools AssignedPools
	pools.Record([]fleet.Pool{files, blocks})
	volumes := pools.Lookup()
	applied := hypervisor.AppliedRecord{Pools: map[fleet.PoolID]hypervisor.AppliedPool{
		files.ID: {Name: files.Name, Path: "/srv/pool"}, blocks.ID: {Name: blocks.Name, Spec: &blocks.Spec},
	}}
	for _, ref := range []fleet.Volref{{PoolID: files.ID, Volume: "v.qcow2"}, {PoolID: blocks.ID, Volume: "v"}} {
		at := volumes.AppliedPath(applied, ref)
		if got := volumes.VolumeAt(at); at == "" || got == nil || *got != ref {
			t.Errorf("the volume at %q is %+v, want %+v", at, got, ref)
		}
	}
	for _, file := range []string{"/srv/other/v.qcow2", "/srv/pool/below/v.qcow2"} {
		if got := volumes.VolumeAt(file); got != nil {
			t.Errorf("the file %s outside the pools is the volume %+v", file, got)
		}
	}
}
