package agent_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"quantix/agent/mock"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// ownershipMarkFailer is a host that fails to write a VM's ownership mark the first time.
type ownershipMarkFailer struct {
	*mock.Host
	failed atomic.Bool
}

func (c *ownershipMarkFailer) SetOwnershipMark(ctx context.Context, id fleet.VMID, mark string) error {
	if !c.failed.Swap(true) {
		return errors.New("the test fails it")
	}
	return c.Host.SetOwnershipMark(ctx, id, mark)
}

func TestOwnershipMarksFromPortalAreWritten(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), &ownershipMarkFailer{Host: mock.New(mock.Options{Name: "host-1"})}
	old, fresh := newVM("old"), newVM("fresh")
	p.ownershipMarks = map[fleet.VMID]string{old.ID: "0a", fresh.ID: "0b"}
	p.startAgent(p.join(), host, host.Host)
	p.runJob(wire.Work{Kind: fleet.VMStart, VM: old})
	p.runJob(wire.Work{Kind: fleet.VMApply, VM: fresh, Mark: "0b"})
	s := p.waitNextState("both VMs with their marks", func(s wire.State) bool {
		a, _ := reportedVM(s, old.ID)
		b, _ := reportedVM(s, fresh.ID)
		return a.Proof == wire.OwnershipProof(old.ID, "0a") && b.Proof == wire.OwnershipProof(fresh.ID, "0b")
	})
	if vm, _ := reportedVM(s, old.ID); vm.Status.Power != fleet.Running {
		t.Errorf("marked, it is %+v", vm.Status)
	}
}
