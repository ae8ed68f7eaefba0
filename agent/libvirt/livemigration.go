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
	"quantix/agent/libvirt/migration"
	"quantix/agent/libvirt/storage"
	"quantix/internal/fleet"
)

// The two agents drive libvirt's migration protocol, version 3: the source begins, performs and confirms, and the target
// prepares and finishes. libvirt's own peer-to-peer mode would need a connection from one libvirtd to the other.
//
// The target's answer to the finish decides the VM's host. Until then both guests are paused, and the source keeps its
// guest until the target's job has ended.

// Time limits of the phases that transfer no memory.
const (
	migrationPhaseTimeout = time.Minute
	migrationPollInterval = 500 * time.Millisecond
)

// liveMigration is the state of one MigrateRunningVM call.
type liveMigration struct {
	*Backend
	c   *conn.Conn // of its own, because libvirt binds the migration to the connection
	in  hypervisor.LiveMigrationWork
	ref golibvirt.Domain
	end migration.Result

	timedOut bool // the time limit has cancelled the transfer
	paused   bool // the time limit has paused the guest
	switched bool // the guest runs on the target, and the rest of its memory follows

	ownVariables bool // the target has a file of its own for the VM's UEFI variables

	disks  []*diskMigration // the copied disks, in the order of the job
	params migration.Params // of Begin and Perform
	offer  migration.Offer  // to the target
}

// flags are the flags of the source's phases. They protect the VM from changes between the phases.
func (m *liveMigration) flags() golibvirt.DomainMigrateFlags {
	return migration.Flags(m.in.Params.Disks, m.in.Params.Options) | golibvirt.MigrateChangeProtection
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
		return m.settle(ctx)
	}
	s, err := m.read(ctx)
	if err != nil {
		return err
	}
	if err := m.checkMigratable(s); err != nil {
		return err
	}
	if err := hypervisor.CheckMigrationOptions(m.in.Params.Options); err != nil {
		return err
	}
	m.ref = s.ref
	m.params = migration.Params{Domain: s.ref.Name, RateBytes: m.in.Params.RateBytes, PostCopy: m.in.Params.Options.PostCopy, Channels: m.in.Params.Options.Channels}
	if err := m.prepareDisks(ctx); err != nil {
		return err
	}
	if err := m.preparePersistent(ctx); err != nil {
		return err
	}
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
	switch {
	case arrived:
		return m.cleanUpSource(ctx)
	case m.isGuestLost(ctx):
		return errors.Join(hypervisor.LostGuestError(m.in.VM.Name), err)
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
		copied := slices.ContainsFunc(m.in.Params.Disks, func(o fleet.MigratingDisk) bool { return o.Disk == d.Ref() })
		if !copied && !slices.Contains(m.in.Params.Stay, d.Ref()) {
			return hypervisor.RefuseMigration(m.in.VM.Name, "the migration job does not list the disk %s.", d.Volume)
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

// preparePersistent sets the definition for the next start, which the target checks before the transfer.
func (m *liveMigration) preparePersistent(ctx context.Context) (err error) {
	if m.params.PersistXML == "" { // no disk is copied
		m.params.PersistXML, err = conn.Call(ctx, m.c, func(l *golibvirt.Libvirt) (string, error) {
			return l.DomainGetXMLDesc(m.ref, golibvirt.DomainXMLInactive|golibvirt.DomainXMLSecure|golibvirt.DomainXMLMigratable)
		})
	}
	m.offer.Persistent = m.params.PersistXML
	return err
}

// migrate runs the phases. It returns arrived when the VM runs on the target and this host no longer has the VM.
func (m *liveMigration) migrate(ctx context.Context, link *migration.Link) (arrived bool, err error) {
	dir, err := m.makeSocketDir(ctx, m.c, m.in.VM.ID, migration.Source)
	if err != nil {
		return false, err
	}
	stop, err := dir.Forward(link)
	if err != nil {
		return false, err
	}
	defer stop()
	m.params.MigrationURI, m.params.DisksURI = dir.MigrationURI(), dir.DisksURI()
	var cookie []byte
	err = m.phase(ctx, func(l *golibvirt.Libvirt) (err error) {
		m.offer.Cookie, m.offer.XML, err = l.DomainMigrateBegin3Params(m.ref, m.params.List(), uint32(m.flags()))
		return err
	})
	if err != nil {
		return false, err
	}
	if m.offer.Inodes, err = diskInodes(m.in.Params.Stay, m.in.Pools); err == nil {
		cookie, err = m.prepareTarget(ctx, link)
	}
	if err != nil {
		return false, errors.Join(err, m.confirmCancelled())
	}
	performed := m.perform(ctx, &cookie)
	if performed != nil {
		cookie = nil
	}
	err = m.finishOnTarget(ctx, link, migration.End{Cancelled: performed != nil, Stopped: ctx.Err() != nil, Cookie: cookie})
	switch {
	case performed != nil && conn.IsLibvirtError(performed):
		// A failed Perform has resumed the guest. The target only ends its incoming guest.
		confirmed := m.confirmCancelled()
		return false, errors.Join(m.cancellationOr(ctx, performed), confirmed)
	case performed != nil || err != nil: // the connection to libvirt or to the target was lost
		return m.decide(ctx, errors.Join(performed, err))
	case m.end.Error != "":
		// The guest is paused. decide resumes it once the target's job has ended.
		return m.decide(ctx, fmt.Errorf("%s reports: %s", m.in.Params.ToName, m.end.Error))
	case len(m.end.Cookie) == 0: // libvirt on the target has not finished
		return m.decide(ctx, fmt.Errorf("%s reports success without libvirt's cookie", m.in.Params.ToName))
	}
	if err := m.confirm(true); err != nil {
		return m.decide(ctx, err)
	}
	return true, nil
}

// isGuestLost reports whether a failed post-copy migration has left a part of the guest's memory on the target.
func (m *liveMigration) isGuestLost(ctx context.Context) bool {
	if !m.in.Params.Options.PostCopy {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), migrationPhaseTimeout)
	defer cancel()
	s, err := m.read(ctx)
	return err == nil && s.live != nil && isPostCopyFailure(s)
}

// cancellationOr returns the reason for the cancellation of the transfer, if there is one, else err.
func (m *liveMigration) cancellationOr(ctx context.Context, err error) error {
	if m.timedOut {
		return hypervisor.StayedVMError(hypervisor.MigrationTimeoutError(m.in.VM.Name, m.in.Params.Options), m.powerHere(ctx))
	}
	return causeOr(ctx, err)
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
		return l.DomainMigrateConfirm3Params(m.ref, migration.Params{Domain: m.ref.Name}.List(), m.end.Cookie, uint32(m.flags()), cancelled)
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
func (m *liveMigration) prepareTarget(ctx context.Context, link *migration.Link) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*migrationPhaseTimeout)
	defer cancel()
	var answer migration.Answer
	if err := link.Send(ctx, m.offer); err != nil {
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
	m.ownVariables = answer.OwnVariables
	return answer.Cookie, nil
}

// diskInodes returns the inode numbers of the files of the disks, by path. A volume in a block pool has none.
func diskInodes(disks []fleet.Volref, pools []fleet.Pool) (map[string]string, error) {
	out := map[string]string{}
	for _, ref := range disks {
		v, err := storage.LocalVolumeOf(ref, pools)
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
func (m *liveMigration) finishOnTarget(ctx context.Context, link *migration.Link, end migration.End) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*migrationPhaseTimeout)
	defer cancel()
	if err := link.Send(ctx, end); err != nil {
		return err
	}
	return link.Receive(ctx, &m.end)
}

// perform transfers the guest. If ctx ends, perform cancels the transfer, which leaves the guest running here.
func (m *liveMigration) perform(ctx context.Context, cookie *[]byte) error {
	if limit := m.in.Params.Options.MaxDowntime; limit > 0 {
		err := m.phase(ctx, func(l *golibvirt.Libvirt) error { return l.DomainMigrateSetMaxDowntime(m.ref, uint64(limit), 0) })
		if err != nil {
			return err
		}
	}
	done, stop := context.WithCancel(context.WithoutCancel(ctx))
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		m.watchTransfer(done, ctx)
	}()
	defer func() {
		stop()
		<-watched
	}()
	return m.c.Do(context.WithoutCancel(ctx), func(l *golibvirt.Libvirt) error {
		out, err := l.DomainMigratePerform3Params(m.ref, nil, m.params.List(), *cookie, m.flags())
		*cookie = out
		return err
	})
}

// watchTransfer reports the progress of the transfer until done ends. It aborts the transfer when ctx ends, and applies
// the job's options to it.
func (m *liveMigration) watchTransfer(done, ctx context.Context) { //nolint:revive // two contexts with a meaning each
	began := time.Now()
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
			options := m.in.Params.Options
			expired := options.TimeoutSeconds > 0 && time.Since(began) > time.Duration(options.TimeoutSeconds)*time.Second
			m.timedOut = m.timedOut || expired && options.OnTimeout == fleet.ExpiryCancel
			if ctx.Err() != nil || m.timedOut {
				return c.Do(call, func(l *golibvirt.Libvirt) error { return l.DomainAbortJob(m.ref) })
			}
			_, stats, err := jobStats(call, c, m.ref)
			if err != nil {
				return err
			}
			percent, note := migration.Progress(stats)
			switch {
			case m.paused:
				note += ", the guest is paused"
			case m.switched:
				note += ", the guest runs on " + m.in.Params.ToName
			}
			m.in.Progress(percent, note)
			switch {
			case options.PostCopy && !m.switched && migration.WasCopiedOnce(stats):
				err = c.Do(call, func(l *golibvirt.Libvirt) error { return l.DomainMigrateStartPostCopy(m.ref, 0) })
				m.switched = err == nil
			case expired && options.OnTimeout == fleet.ExpiryPause && !m.paused && !m.switched:
				err = c.Do(call, func(l *golibvirt.Libvirt) error { return l.DomainSuspend(m.ref) })
				m.paused = err == nil
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
