package libvirt

import (
	"context"
	"errors"
	"slices"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/migration"
	"quantix/internal/fleet"
)

// decide waits for the end of the target's job, and then ends the migration accordingly. why is the error for a VM that
// stays.
func (m *liveMigration) decide(ctx context.Context, why error) (arrived bool, err error) {
	ctx = context.WithoutCancel(ctx)
	m.in.Progress(99, "waiting for the result of "+m.in.Params.ToName)
	if arrived, err = m.in.AwaitTarget(ctx); err != nil {
		return false, errors.Join(why, err)
	}
	if m.confirm(arrived) == nil {
		if arrived {
			return true, nil
		}
		return false, why
	}
	return arrived, m.settleState(ctx, arrived, why)
}

// settle ends a migration that an earlier attempt of the job began. It returns an InterruptedMigrationError if the VM stays.
func (m *liveMigration) settle(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if err := m.endTransfer(ctx); err != nil {
		return err
	}
	if err := migration.RemoveSocketDir(m.in.VM.ID, migration.Source); err != nil {
		return err
	}
	m.in.Progress(99, "waiting for the result of "+m.in.Params.ToName)
	arrived, err := m.in.AwaitTarget(ctx)
	if err != nil {
		return err
	}
	interrupted := hypervisor.InterruptedMigrationError(m.in.VM.Name)
	switch err := m.settleState(ctx, arrived, interrupted); {
	case err == interrupted: //nolint:errorlint // other errors may wrap it
		return hypervisor.StayedVMError(err, m.powerHere(ctx))
	case err != nil:
		return err
	}
	return m.cleanUpSource(ctx)
}

// powerHere returns the power state of the VM on this host; empty: unknown.
func (m *liveMigration) powerHere(ctx context.Context) fleet.Power {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), migrationPhaseTimeout)
	defer cancel()
	s, err := m.read(ctx)
	switch {
	case conn.IsLibvirtCode(err, golibvirt.ErrNoDomain):
		return fleet.Absent
	case err != nil:
		return ""
	}
	power, _ := translatePower(s.state, s.reason)
	return power
}

// endTransfer cancels a transfer that libvirt still performs, and waits for its end.
func (m *liveMigration) endTransfer(ctx context.Context) error {
	for {
		s, err := m.read(ctx)
		if conn.IsLibvirtCode(err, golibvirt.ErrNoDomain) {
			return nil
		}
		if err != nil {
			return err
		}
		m.ref = s.ref
		kind, _, err := jobStats(ctx, m.c, s.ref)
		if err != nil && !conn.IsLibvirtError(err) {
			return err
		}
		if transfers := err == nil && kind != int32(golibvirt.DomainJobNone) && s.state != int32(golibvirt.DomainPaused); !transfers {
			return nil
		}
		err = m.c.Do(ctx, func(l *golibvirt.Libvirt) error { return l.DomainAbortJob(s.ref) })
		if err != nil && !conn.IsLibvirtError(err) {
			return err
		}
		time.Sleep(migrationPollInterval)
	}
}

// settleState removes this host's domain if the VM has arrived on the target. Otherwise it resumes the guest and returns
// why.
func (m *liveMigration) settleState(ctx context.Context, arrived bool, why error) error {
	s, err := m.read(ctx)
	gone := conn.IsLibvirtCode(err, golibvirt.ErrNoDomain)
	switch {
	case err != nil && !gone:
		return err
	case arrived && gone:
		return nil
	case arrived:
		return m.removeArrivedDomain(ctx, s)
	case gone:
		return errNoDomain(m.in.VM.ID)
	case isPostCopyFailure(s):
		return hypervisor.LostGuestError(m.in.VM.Name)
	case m.isPausedByMigration(s):
		if err := m.phase(ctx, func(l *golibvirt.Libvirt) error { return l.DomainResume(s.ref) }); err != nil {
			return errors.Join(why, err)
		}
	}
	return why
}

// isPausedByMigration reports whether the migration has paused the guest: at its end, or because of its time limit.
func (m *liveMigration) isPausedByMigration(s observedDomain) bool {
	reasons := []golibvirt.DomainPausedReason{golibvirt.DomainPausedMigration}
	if m.in.Params.Options.OnTimeout == fleet.ExpiryPause {
		reasons = append(reasons, golibvirt.DomainPausedUser)
	}
	return s.state == int32(golibvirt.DomainPaused) && slices.Contains(reasons, golibvirt.DomainPausedReason(s.reason))
}

// removeArrivedDomain removes the paused guest and the definition of a VM that runs on the target.
func (m *liveMigration) removeArrivedDomain(ctx context.Context, s observedDomain) error {
	if s.live != nil && !m.isPausedByMigration(s) && !isPostCopyFailure(s) {
		return fleet.Errorf(fleet.Conflict, "The VM %s runs on %s, but its guest also runs on this host. Find out which guest has the newer data, and force the other off.", m.in.VM.Name, m.in.Params.ToName)
	}
	defer m.domains.invalidate(s.ref.UUID)
	if s.live != nil {
		if err := m.phase(ctx, func(l *golibvirt.Libvirt) error { return l.DomainDestroyFlags(s.ref, 0) }); err != nil && !conn.IsLibvirtError(err) {
			return err
		}
	}
	if s.transient {
		return nil
	}
	return m.phase(ctx, func(l *golibvirt.Libvirt) error {
		return l.DomainUndefineFlags(s.ref, golibvirt.DomainUndefineNvram)
	})
}

// cleanUpSource removes what this host still has of a VM that has left.
func (m *liveMigration) cleanUpSource(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), migrationPhaseTimeout)
	defer cancel()
	m.domains.invalidate(m.ref.UUID)
	var err error
	if m.ownVariables {
		err = m.firmware.RemoveVariables(m.in.VM.ID)
	}
	return errors.Join(err, m.removeOtherSeeds(ctx, m.in.VM.ID), m.filters.RemoveNICFilters(ctx, m.c, m.in.VM.ID, nil))
}
