package libvirt

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/migration"
	"quantix/internal/fleet"
)

// incomingVM is the state of one ReceiveVM call.
type incomingVM struct {
	*applyRun
	hypervisor.ReceiveVMWork
	dir              migration.SocketDir
	createsVariables bool // libvirt creates the file of the UEFI variables for this call
}

// ReceiveVM implements hypervisor.VMs. libvirt ends the incoming guest if the connection c is lost before Finish.
func (b *Backend) ReceiveVM(ctx context.Context, in hypervisor.ReceiveVMWork) error {
	act := "receive " + in.Apply.VM.Name
	unlock, err := b.vmLocks.Lock(ctx, in.Apply.VM.ID)
	if err != nil {
		return conn.WrapAction(act, err)
	}
	defer unlock()
	files, err := b.lockFilesShared(ctx, in.Apply)
	if err != nil {
		return conn.WrapAction(act, err)
	}
	defer files.Unlock()
	b.assignedPools.Record(in.Apply.Pools)
	return conn.WrapAction(act, b.daemon.WithConn(context.WithoutCancel(ctx), func(_ context.Context, c *conn.Conn) error {
		m := &incomingVM{applyRun: &applyRun{Backend: b, c: c, in: in.Apply}, ReceiveVMWork: in}
		return m.run(ctx)
	}))
}

func (m *incomingVM) run(ctx context.Context) error {
	switch {
	case m.Arrived:
		return migration.RemoveSocketDir(m.Apply.VM.ID, migration.Target)
	case m.Begun:
		return m.settle(ctx)
	}
	old, err := m.existingDomain(ctx)
	switch {
	case err != nil:
		return err
	case old != nil:
		return hypervisor.RefuseKnownVM(m.Apply.VM.Name)
	}
	if err := m.firmware.Discard(m.Apply.VM.ID, ""); err != nil { // of a failed cold migration
		return err
	}
	if err := m.RecordBegin(); err != nil {
		return err
	}
	err = m.receive(ctx)
	if err != nil {
		err = errors.Join(err, m.cleanUpTarget(ctx))
	}
	return err
}

// settle ends an interrupted call.
func (m *incomingVM) settle(ctx context.Context) error {
	switch arrived, err := m.hasArrived(ctx); {
	case err != nil:
		return err
	case arrived:
		return migration.RemoveSocketDir(m.Apply.VM.ID, migration.Target)
	}
	return errors.Join(hypervisor.InterruptedMigrationError(m.Apply.VM.Name), m.cleanUpTarget(ctx))
}

// hasArrived reports whether the guest runs here, or was paused by a user. It waits while libvirt still starts or ends the
// incoming guest.
func (m *incomingVM) hasArrived(ctx context.Context) (bool, error) {
	for {
		s, err := m.existingDomain(ctx)
		switch {
		case err != nil || s == nil:
			return false, err
		case s.live == nil:
			return false, hypervisor.RefuseKnownVM(m.Apply.VM.Name)
		case isPostCopyFailure(*s):
			return false, hypervisor.LostGuestError(m.Apply.VM.Name)
		case s.state == int32(golibvirt.DomainRunning) && s.reason == int32(golibvirt.DomainRunningPostcopy):
			// the rest of the guest's memory still arrives
		case s.state != int32(golibvirt.DomainPaused):
			return true, nil
		case s.reason != int32(golibvirt.DomainPausedMigration) && s.reason != int32(golibvirt.DomainPausedStartingUp):
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-time.After(migrationPollInterval):
		}
	}
}

// isPostCopyFailure reports whether the guest has lost a part of its memory in a post-copy migration. Without a migration
// in progress, the source's guest waits in vain for the rest of it, too.
func isPostCopyFailure(s observedDomain) bool {
	switch golibvirt.DomainState(s.state) {
	case golibvirt.DomainRunning:
		return s.reason == int32(golibvirt.DomainRunningPostcopyFailed)
	case golibvirt.DomainPaused:
		return s.reason == int32(golibvirt.DomainPausedPostcopy) || s.reason == int32(golibvirt.DomainPausedPostcopyFailed)
	}
	return false
}

// lostGuest returns the error of a guest that a failed post-copy migration has left on this host; nil: there is none.
func (m *incomingVM) lostGuest(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), migrationPhaseTimeout)
	defer cancel()
	s, err := m.existingDomain(ctx)
	if err == nil && s != nil && s.live != nil && isPostCopyFailure(*s) {
		return hypervisor.LostGuestError(m.Apply.VM.Name)
	}
	return nil
}

// receive prepares this host, receives the guest and starts it.
func (m *incomingVM) receive(ctx context.Context) error {
	m.Progress(0, "waiting for the source host")
	link, err := m.Accept(ctx)
	if err != nil {
		return err
	}
	defer link.Close()
	if m.dir, err = m.makeSocketDir(ctx, m.c, m.Apply.VM.ID, migration.Target); err != nil {
		return err
	}
	defer func() { _ = m.dir.Remove() }() // a later migration of the VM replaces the directory
	var offer migration.Offer
	if err := link.Receive(ctx, &offer); err != nil {
		return err
	}
	cookie, err := m.prepare(ctx, offer)
	if err != nil {
		_ = link.Send(ctx, migration.Answer{Error: err.Error()}) // without it, the source host gets the error of this job
		return err
	}
	go link.ForwardTo(m.dir.Dial)
	if err := link.Send(ctx, migration.Answer{Cookie: cookie, OwnVariables: m.createsVariables}); err != nil {
		return errors.Join(err, m.finish(ctx, migration.End{Cancelled: true}, nil))
	}
	m.Progress(0, "receiving the guest")
	end := migration.End{}
	// The transfer has no time limit. A lost link and a cancelled job end it.
	if err := link.Receive(ctx, &end); err != nil {
		err = errors.Join(err, m.finish(ctx, migration.End{Cancelled: true}, nil))
		return cmp.Or(m.lostGuest(ctx), err)
	}
	var result migration.Result
	result.Cookie, err = m.complete(ctx, end)
	if errors.Is(err, hypervisor.ErrUnreachable) {
		return err // the source host waits for the end of this job, because the guest may run here
	}
	if err != nil {
		result.Error = err.Error()
	} else {
		_ = m.RecordArrived() // without the record, a restarted agent looks for the guest
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), migrationPhaseTimeout)
	defer cancel()
	_ = link.Send(within, result) // without it, the source host waits for the end of this job
	return err
}

// complete starts the received guest, or ends it if the source host has kept the guest. It returns Finish's cookie. An error
// that wraps ErrUnreachable means that the guest may run here.
func (m *incomingVM) complete(ctx context.Context, end migration.End) (cookie []byte, err error) {
	if end.Cancelled {
		err = hypervisor.InterruptedMigrationError(m.Apply.VM.Name)
		if end.Stopped {
			err = hypervisor.ErrCancelled
		}
		return nil, cmp.Or(m.finish(ctx, end, nil), m.lostGuest(ctx), err)
	}
	allowed, err := m.allowedFiles(ctx)
	if err == nil {
		err = allowed.CheckCookie(end.Cookie)
	}
	if err != nil {
		return nil, errors.Join(err, m.finish(ctx, migration.End{Cancelled: true}, nil))
	}
	if err = m.finish(ctx, end, &cookie); err != nil {
		err = m.settleFailedFinish(ctx, err)
	}
	return cookie, err
}

// settleFailedFinish returns nil if the guest runs here although Finish failed, and why if this host has no guest. It uses a
// connection of its own, because a call that timed out has closed the other one. An error that wraps ErrUnreachable means
// that the guest may run.
func (m *incomingVM) settleFailedFinish(ctx context.Context, why error) error {
	ctx = context.WithoutCancel(ctx)
	return m.daemon.WithConn(ctx, func(ctx context.Context, c *conn.Conn) error {
		run := *m.applyRun
		run.c = c
		again := incomingVM{applyRun: &run, ReceiveVMWork: m.ReceiveVMWork}
		arrived, err := again.hasArrived(ctx)
		switch {
		case err != nil:
			return hypervisor.WrapUnreachable(errors.Join(why, err))
		case arrived:
			return nil
		}
		return why
	})
}

// prepareHost creates the VM's network filters and first-boot data, and checks the VM's disks, as ApplyVM would.
func (m *incomingVM) prepareHost(ctx context.Context) error {
	plan := hypervisor.PlanEdit(hypervisor.AppliedRecord{}, hypervisor.DefinedSpec{}, m.Apply.VM, hypervisor.OverwriteAll)
	content, err := m.prepareEdit(ctx, nil, nil, plan)
	if err != nil {
		return err
	}
	if err := m.createSeed(ctx, fleet.VMFirstBoot{}, &content); err != nil {
		return err
	}
	return m.filters.DefineNICFilters(ctx, m.c, m.Apply)
}

// prepare checks the offered definition and starts the incoming guest.
func (m *incomingVM) prepare(ctx context.Context, offer migration.Offer) (cookie []byte, err error) {
	if len(offer.Cookie) == 0 { // libvirtd 9.0 crashes at an empty cookie
		return nil, errors.New("the source host sent no cookie of libvirt")
	}
	allowed, err := m.allowedFiles(ctx)
	if err != nil {
		return nil, err
	}
	name, err := allowed.CheckDefinition(offer.XML)
	if err == nil {
		err = allowed.CheckCookie(offer.Cookie)
	}
	if err == nil {
		err = m.checkPersistent(ctx, allowed, offer.Persistent)
	}
	if err != nil {
		return nil, err
	}
	if err := m.checkNameFree(ctx, name); err != nil {
		return nil, err
	}
	if err := m.checkSameFiles(offer.Inodes); err != nil {
		return nil, err
	}
	there, err := hostfile.RunWithinLookupTimeout(ctx, func() (bool, error) { return m.firmware.HasVariables(m.Apply.VM.ID) })
	if err != nil {
		return nil, err
	}
	m.createsVariables = !there
	if err := m.createDisks(ctx, offer.Disks); err != nil {
		return nil, err
	}
	if err := m.prepareHost(ctx); err != nil {
		return nil, err
	}
	params := migration.Params{Domain: name, DestXML: offer.XML, MigrationURI: m.dir.MigrationURI(), DisksURI: m.dir.DisksURI(), Channels: m.Options.Channels}
	for _, d := range offer.Disks {
		params.Disks = append(params.Disks, d.Target)
	}
	ctx, cancel := context.WithTimeout(ctx, migrationPhaseTimeout)
	defer cancel()
	return conn.Call(ctx, m.c, func(l *golibvirt.Libvirt) ([]byte, error) {
		cookie, _, err := l.DomainMigratePrepare3Params(params.List(), offer.Cookie, uint32(migration.Flags(m.Disks, m.Options)))
		return cookie, err
	})
}

// checkPersistent checks the definition for the next start. For a post-copy migration, libvirt also translates it into
// QEMU's arguments, because the guest would be lost if libvirt refused it at the end.
func (m *incomingVM) checkPersistent(ctx context.Context, allowed domxml.Incoming, text string) error {
	if text == "" {
		if m.Options.PostCopy {
			return fleet.Errorf(fleet.Conflict, "The agent of the source host is too old for a post-copy migration. Update the agent.")
		}
		return nil // an older agent; the definition is checked at the end
	}
	if _, err := allowed.CheckDefinition(text); err != nil || !m.Options.PostCopy {
		return err
	}
	return checkStartable(ctx, m.c, text)
}

// checkSameFiles refuses disks whose file on this host is not that of the source host, because their pool is not shared.
func (m *incomingVM) checkSameFiles(inodes map[string]string) error {
	var shared []fleet.Volref
	for _, d := range m.Apply.VM.Spec.Disks {
		if !slices.ContainsFunc(m.Disks, func(o fleet.MigratingDisk) bool { return o.To == d.Ref() }) {
			shared = append(shared, d.Ref())
		}
	}
	own, err := diskInodes(shared, m.Apply.Pools)
	if err != nil {
		return err
	}
	for file, inode := range own {
		if inodes[file] != inode {
			return fleet.Errorf(fleet.Conflict, "The file %s on this host is not that of the source host, so its pool is not shared. Mount the same storage on both hosts.", file)
		}
	}
	return nil
}

// allowedFiles returns what the source host's definition may name.
func (m *incomingVM) allowedFiles(ctx context.Context) (domxml.Incoming, error) {
	return m.incomingOf(ctx, m.c, m.Apply.VM, m.Apply.Pools)
}

// finish starts the received guest, or ends it if the source host has cancelled the transfer.
func (m *incomingVM) finish(ctx context.Context, end migration.End, cookie *[]byte) error {
	cancelled := int32(0)
	if end.Cancelled {
		cancelled = 1
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), migrationPhaseTimeout)
	defer cancel()
	uuid, err := conn.ParseUUID(m.Apply.VM.ID)
	if err != nil {
		return err
	}
	defer m.domains.invalidate(uuid)
	ref, err := conn.Call(ctx, m.c, func(l *golibvirt.Libvirt) (golibvirt.Domain, error) { return l.DomainLookupByUUID(uuid) })
	if conn.IsLibvirtCode(err, golibvirt.ErrNoDomain) && end.Cancelled {
		return nil
	}
	if err != nil {
		return err
	}
	err = m.c.Do(ctx, func(l *golibvirt.Libvirt) error {
		_, out, err := l.DomainMigrateFinish3Params(migration.Params{Domain: ref.Name}.List(), end.Cookie, uint32(migration.Flags(m.Disks, m.Options)), cancelled)
		if cookie != nil {
			*cookie = out
		}
		return err
	})
	if end.Cancelled && conn.IsLibvirtError(err) {
		return nil // libvirt answers a cancelled Finish with an error, because there is no guest to return
	}
	return err
}

// cleanUpTarget removes what the failed migration left on this host.
func (m *incomingVM) cleanUpTarget(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), migrationPhaseTimeout)
	defer cancel()
	if old, err := m.existingDomain(ctx); err != nil || old != nil {
		return err
	}
	if err := migration.RemoveSocketDir(m.Apply.VM.ID, migration.Target); err != nil {
		return err
	}
	var err error
	if m.createsVariables {
		err = m.firmware.RemoveVariables(m.Apply.VM.ID)
	}
	return errors.Join(err, m.removeDisks(ctx), m.removeOtherSeeds(ctx, m.Apply.VM.ID), m.filters.RemoveNICFilters(ctx, m.c, m.Apply.VM.ID, nil))
}
