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

// markFailer is a host that fails to write a VM's ownership mark the first time.
type markFailer struct {
	*mock.Host
	failed atomic.Bool
}

func (c *markFailer) MarkVM(ctx context.Context, id fleet.VMID, mark string) error {
	if !c.failed.Swap(true) {
		return errors.New("the test fails it")
	}
	return c.Host.MarkVM(ctx, id, mark)
}

func TestOwnershipMarksFromPortalAreWritten(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), &markFailer{Host: mock.New(mock.Options{Name: "host-1"})}
	old, fresh := newVM("old"), newVM("fresh")
	p.marks = map[fleet.VMID]string{old.ID: "0a", fresh.ID: "0b"}
	p.running(p.join(), host, host.Host)
	p.do(wire.Work{Kind: fleet.VMStart, VM: old})
	p.do(wire.Work{Kind: fleet.VMApply, VM: fresh, Mark: "0b"})
	s := p.nextState("both VMs with their marks", func(s wire.State) bool {
		a, _ := vmIn(s, old.ID)
		b, _ := vmIn(s, fresh.ID)
		return a.Proof == wire.Proof(old.ID, "0a") && b.Proof == wire.Proof(fresh.ID, "0b")
	})
	if vm, _ := vmIn(s, old.ID); vm.Status.Power != fleet.Running {
		t.Errorf("marked, it is %+v", vm.Status)
	}
}
