package libvirt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/storage"
	"quantix/agent/migration"
	"quantix/internal/fleet"
)

// The two agents drive libvirt's migration protocol, version 3: the source begins, performs and confirms, and the target
// prepares and finishes. libvirt's own peer-to-peer mode would need a connection from one libvirtd to the other.
//
// The target's answer to the finish decides the VM's host. Until then both guests are paused, and the source keeps its
// guest until the target's job has ended.

// migrationFlags are the flags of all phases. migrationSourceFlags are those of the source's phases: they protect the
// VM from changes between the phases. libvirt considers only some file systems as shared, so its own check is off: the
// target compares each disk's file with the source's.
const (
	migrationFlags       = golibvirt.MigrateLive | golibvirt.MigratePersistDest | golibvirt.MigrateUndefineSource | golibvirt.MigrateUnsafe
	migrationSourceFlags = migrationFlags | golibvirt.MigrateChangeProtection
)

// Time limits of the phases that transfer no memory.
const (
	migrationPhaseTimeout = time.Minute
	migrationPollInterval = 500 * time.Millisecond
)

// Messages of the agents. They are sent in this order: offer, answer, end, result.
type (
	migrationOffer struct {
		XML    string            `json:"xml"`    // the running guest's definition
		Cookie []byte            `json:"cookie"` // of libvirt's Begin
		Inodes map[string]string `json:"inodes"` // inode number of each disk's file, by path
	}
	migrationAnswer struct {
		Cookie []byte `json:"cookie"` // of Prepare
		Error  string `json:"error"`
	}
	migrationEnd struct {
		Cancelled bool   `json:"cancelled"` // the source has kept the guest
		Stopped   bool   `json:"stopped"`   // because a user cancelled the job
		Cookie    []byte `json:"cookie"`    // of Perform
	}
	migrationResult struct {
		Cookie []byte `json:"cookie"` // of Finish
		Error  string `json:"error"`  // why the VM does not run on the target; empty: it runs there
	}
)

// streamMigration is the kind of QEMU's migration stream.
const streamMigration byte = 'm'

// liveMigration is the state of one MigrateRunningVM call.
type liveMigration struct {
	*Backend
	c   *conn.Conn // of its own, because libvirt binds the migration to the connection
	in  hypervisor.LiveMigrationWork
	ref golibvirt.Domain
	end migrationResult
}

// MigrateRunningVM implements hypervisor.VMs.
func (b *Backend) MigrateRunningVM(ctx context.Context, in hypervisor.LiveMigrationWork) error {
	act := "migrate " + in.VM.Name
	unlock, err := b.vmLocks.Lock(ctx, in.VM.ID)
	if err != nil {
		return conn.WrapAction(act, err)
	}
	defer unlock()
	files, err := b.lockFilesShared(ctx, hypervisor.ApplyWork{VM: in.VM, Pools: in.Pools})
	if err != nil {
		return conn.WrapAction(act, err)
	}
	defer files.Unlock()
	// ctx ends when a user cancels. The phases that follow a cancellation still need the connection.
	return conn.WrapAction(act, b.daemon.WithConn(context.WithoutCancel(ctx), func(_ context.Context, c *conn.Conn) error {
		m := &liveMigration{Backend: b, c: c, in: in}
		err := m.run(ctx)
		if errors.Is(err, context.Canceled) {
			return causeOr(ctx, err)
		}
		return err
	}))
}

func (m *liveMigration) run(ctx context.Context) error {
	if m.in.Begun {
		return m.settle(ctx, hypervisor.InterruptedMigrationError(m.in.VM.Name))
	}
	s, err := m.read(ctx)
	if err != nil {
		return err
	}
	if err := m.checkMigratable(s); err != nil {
		return err
	}
	m.ref = s.ref
	m.in.Progress(0, "waiting for "+m.in.Params.ToName)
	link, err := m.in.Connect(ctx)
	if err != nil {
		return err
	}
	defer link.Close()
	if err := m.in.RecordBegin(); err != nil { // from now on, the end of this call ends the target's job
		return err
	}
	arrived, err := m.migrate(ctx, link)
	if arrived {
		return m.cleanUpSource(ctx)
	}
	return err
}

// read returns the domain's current state.
func (m *liveMigration) read(ctx context.Context) (observedDomain, error) {
	uuid, err := conn.ParseUUID(m.in.VM.ID)
	if err != nil {
		return observedDomain{}, err
	}
	m.domains.invalidate(uuid)
	return m.readObservedDomain(ctx, m.c, m.in.VM.ID)
}

// checkMigratable refuses a VM that cannot leave its host while it runs.
func (m *liveMigration) checkMigratable(s observedDomain) error {
	for _, d := range m.in.VM.Spec.Disks {
		if !slices.Contains(m.in.Params.Stay, d.Ref()) {
			return hypervisor.RefuseMigration(m.in.VM.Name, "the disk %s is not in a pool that both hosts share.", d.Volume)
		}
	}
	switch {
	case !s.managed:
		return errUnmanagedDomain()
	case s.live == nil || s.state != int32(golibvirt.DomainRunning):
		return hypervisor.RefuseMigration(m.in.VM.Name, "the VM is not running.")
	case s.transient:
		return hypervisor.FaultError(hypervisor.UndefinedDomainFault())
	case len(m.in.VM.Spec.HostDevices) > 0:
		return hypervisor.RefuseMigration(m.in.VM.Name, "the VM has devices of this host. Detach the devices first.")
	}
	return m.refuseLostGuest(s)
}

// migrate runs the phases. It returns arrived when the VM runs on the target and this host no longer has the VM.
func (m *liveMigration) migrate(ctx context.Context, link *migration.Link) (arrived bool, err error) {
	socket, stop, err := m.forwardStream(link)
	if err != nil {
		return false, err
	}
	defer stop()
	params := migrationParams(m.ref.Name, socket, m.bandwidth()...)
	var xml string
	var cookie []byte
	err = m.phase(ctx, func(l *golibvirt.Libvirt) (err error) {
		cookie, xml, err = l.DomainMigrateBegin3Params(m.ref, params, uint32(migrationSourceFlags))
		return err
	})
	if err != nil {
		return false, err
	}
	offer := migrationOffer{XML: xml, Cookie: cookie}
	if offer.Inodes, err = diskInodes(m.in.VM.Spec, m.in.Pools); err == nil {
		cookie, err = m.prepareTarget(ctx, link, offer)
	}
	if err != nil {
		return false, errors.Join(err, m.confirmCancelled())
	}
	performed := m.perform(ctx, params, &cookie)
	if performed != nil {
		cookie = nil
	}
	err = m.finishOnTarget(ctx, link, migrationEnd{Cancelled: performed != nil, Stopped: ctx.Err() != nil, Cookie: cookie})
	switch {
	case performed != nil && conn.IsLibvirtError(performed):
		// A failed Perform has resumed the guest. The target only ends its incoming guest.
		return false, errors.Join(causeOr(ctx, performed), m.confirmCancelled())
	case performed != nil || err != nil: // the connection to libvirt or to the target was lost
		return m.decide(ctx, errors.Join(performed, err))
	case m.end.Error != "":
		// The guest is paused. decide resumes it once the target's job has ended.
		return m.decide(ctx, fmt.Errorf("%s reports: %s", m.in.Params.ToName, m.end.Error))
	}
	if err := m.confirm(true); err != nil {
		return m.decide(ctx, err)
	}
	return true, nil
}

// bandwidth returns the parameter of the job's rate limit, in MiB/s.
func (m *liveMigration) bandwidth() []golibvirt.TypedParam {
	if m.in.Params.RateBytes <= 0 {
		return nil
	}
	mib := max(1, uint64(m.in.Params.RateBytes)>>20)
	return []golibvirt.TypedParam{{Field: golibvirt.MigrateParamBandwidth, Value: *golibvirt.NewTypedParamValueUllong(mib)}}
}

// causeOr returns the reason for the cancellation if ctx has ended, else err.
func causeOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// phase runs one phase, within migrationPhaseTimeout.
func (m *liveMigration) phase(ctx context.Context, do func(*golibvirt.Libvirt) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), migrationPhaseTimeout)
	defer cancel()
	return m.c.Do(ctx, do)
}

func (m *liveMigration) confirm(arrived bool) error {
	cancelled := int32(1)
	if arrived {
		cancelled = 0
	}
	return m.phase(context.Background(), func(l *golibvirt.Libvirt) error {
		return l.DomainMigrateConfirm3Params(m.ref, migrationParams(m.ref.Name, ""), m.end.Cookie, uint32(migrationSourceFlags), cancelled)
	})
}

// confirmCancelled ends a cancelled migration. libvirt has ended some of them already, and then refuses.
func (m *liveMigration) confirmCancelled() error {
	if err := m.confirm(false); !conn.IsLibvirtError(err) {
		return err
	}
	return nil
}

// prepareTarget sends the offer and returns the target's cookie.
func (m *liveMigration) prepareTarget(ctx context.Context, link *migration.Link, offer migrationOffer) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*migrationPhaseTimeout)
	defer cancel()
	var answer migrationAnswer
	if err := link.Send(ctx, offer); err != nil {
		return nil, err
	}
	if err := link.Receive(ctx, &answer); err != nil {
		return nil, err
	}
	switch {
	case answer.Error != "":
		return nil, fleet.Errorf(fleet.Conflict, "%s cannot receive the VM: %s", m.in.Params.ToName, answer.Error)
	case len(answer.Cookie) == 0:
		return nil, errors.New("the target host sent no cookie of libvirt")
	}
	return answer.Cookie, nil
}

// diskInodes returns the inode numbers of the files of the disks, by path. A volume in a block pool has none.
func diskInodes(spec fleet.VMSpec, pools []fleet.Pool) (map[string]string, error) {
	out := map[string]string{}
	for _, d := range spec.Disks {
		v, err := storage.LocalVolumeOf(d.Ref(), pools)
		if err != nil {
			return nil, err
		}
		if v.IsInBlockPool() {
			continue
		}
		inode, err := hostfile.RunWithinLookupTimeout(context.Background(), func() (string, error) { return inodeOf(v.Path()) })
		if err != nil {
			return nil, err
		}
		out[v.Path()] = inode
	}
	return out, nil
}

// finishOnTarget sends the end of the transfer and stores the target's result.
func (m *liveMigration) finishOnTarget(ctx context.Context, link *migration.Link, end migrationEnd) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*migrationPhaseTimeout)
	defer cancel()
	if err := link.Send(ctx, end); err != nil {
		return err
	}
	return link.Receive(ctx, &m.end)
}

// perform transfers the guest. If ctx ends, perform cancels the transfer, which leaves the guest running here.
func (m *liveMigration) perform(ctx context.Context, params []golibvirt.TypedParam, cookie *[]byte) error {
	watch, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go m.watchTransfer(watch, ctx)
	return m.c.Do(context.WithoutCancel(ctx), func(l *golibvirt.Libvirt) error {
		out, err := l.DomainMigratePerform3Params(m.ref, nil, params, *cookie, migrationSourceFlags)
		*cookie = out
		return err
	})
}

// watchTransfer reports the progress of the transfer until done ends. It aborts the transfer when ctx ends.
func (m *liveMigration) watchTransfer(done, ctx context.Context) { //nolint:revive // two contexts with a meaning each
	tick := time.NewTicker(migrationPollInterval)
	defer tick.Stop()
	for {
		select {
		case <-done.Done():
			return
		case <-tick.C:
		}
		// A call that fails is repeated at the next tick.
		_ = m.daemon.WithConn(done, func(call context.Context, c *conn.Conn) error {
			if ctx.Err() != nil {
				return c.Do(call, func(l *golibvirt.Libvirt) error { return l.DomainAbortJob(m.ref) })
			}
			_, params, err := jobStats(call, c, m.ref)
			if err == nil {
				m.in.Progress(transferProgress(params))
			}
			return err
		})
	}
}

func jobStats(ctx context.Context, c *conn.Conn, ref golibvirt.Domain) (kind int32, stats map[string]int64, err error) {
	type result struct {
		kind  int32
		stats []golibvirt.TypedParam
	}
	out, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) (out result, err error) {
		out.kind, out.stats, err = l.DomainGetJobStats(ref, 0)
		return out, err
	})
	return out.kind, numericParams(out.stats), err
}

// transferProgress returns the progress that libvirt's job statistics mean.
func transferProgress(stats map[string]int64) (percent int, note string) {
	total, left := stats[golibvirt.DomainJobMemoryTotal], stats[golibvirt.DomainJobMemoryRemaining]
	if total > 0 {
		percent = int(100 * (total - left) / total)
	}
	note = fmt.Sprintf("memory: %s left of %s", fleet.FormatBytes(left), fleet.FormatBytes(total))
	if rate := stats[golibvirt.DomainJobMemoryBps]; rate > 0 {
		note += fmt.Sprintf(", %s/s", fleet.FormatBytes(rate))
	}
	if dirty := stats[golibvirt.DomainJobMemoryDirtyRate] * stats[golibvirt.DomainJobMemoryPageSize]; dirty > 0 {
		note += fmt.Sprintf(", the guest changes %s/s", fleet.FormatBytes(dirty))
	}
	return min(percent, 99), note
}
