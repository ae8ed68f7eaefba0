package agentapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/wire"
)

// Report stores an agent's report and renews the leases of the jobs that it lists. A heartbeat updates one narrow row,
// in a batch with other hosts. A full report writes only values that have changed.
func (api *API) Report(ctx context.Context, a fleet.Actor, in wire.Report) (wire.ReportAnswer, error) {
	var answer wire.ReportAnswer
	if err := policy.Check(a, policy.ActAsAgent, ""); err != nil {
		return answer, err
	}
	var err error
	if in.State == nil {
		err = api.recordHeartbeat(ctx, a, in, &answer)
	} else {
		err = api.writeFullReport(ctx, a, in, &answer)
		err = store.FirstErrorOf(err, func() error {
			api.writeSamples(ctx, measurementsOf(a.HostID, in))
			return store.UserError(api.writeMeters(ctx, measurementsOf(a.HostID, in)))
		})
	}
	if err != nil {
		return answer, err
	}
	if answer.AssignedObjects, err = api.assignmentsOfHost(ctx, a.HostID); err != nil {
		return answer, err
	}
	answer.Lost, answer.Stop, err = api.renewLeases(ctx, a.HostID, in.Leases)
	return answer, err
}

// renewLeases renews the leases of jobs. It returns the jobs that no longer belong to the host, and those that users
// cancelled, with the reason.
func (api *API) renewLeases(ctx context.Context, host fleet.HostID, leases []wire.Lease) (lost []fleet.JobID, stop map[fleet.JobID]string, err error) {
	if len(leases) == 0 {
		return nil, nil, nil
	}
	ids, epochs := make([]string, len(leases)), make([]int64, len(leases))
	for i, l := range leases {
		ids[i], epochs[i] = string(l.ID), l.Epoch
	}
	kept, err := api.store.RenewLeases(ctx, db.RenewLeasesParams{Ids: ids, Epochs: epochs, HostID: host, Lease: fleet.Lease})
	if err != nil {
		return nil, nil, fmt.Errorf("renew leases: %w", store.UserError(err))
	}
	mine := make(map[fleet.JobID]bool, len(kept))
	for _, k := range kept {
		if mine[k.ID] = true; k.Stop == "" {
			continue
		}
		if stop == nil {
			stop = map[fleet.JobID]string{}
		}
		stop[k.ID] = k.Stop
	}
	for _, l := range leases {
		if !mine[l.ID] {
			lost = append(lost, l.ID)
		}
	}
	return lost, stop, nil
}

// writeFullReport writes a host's full state in one transaction. It fills in the answer: the transaction's time, the
// report interval and, by VM, the ownership marks that are missing in the metadata of the host's domains. A report older
// than the latest one changes nothing.
func (api *API) writeFullReport(ctx context.Context, a fleet.Actor, in wire.Report, answer *wire.ReportAnswer) error {
	begin := db.BeginReportParams{
		HostID: a.HostID, Session: hashAgentSession(a), Seq: in.Seq, Digest: in.Digest, Load: in.Load, Connected: in.State.Host.Connected, Sent: reportSentAt(in),
	}
	if in.State.Host.Connected || in.StateAgeMs > 0 { // otherwise the agent has never read the hypervisor
		age := durationFromMilliseconds(in.StateAgeMs).Seconds()
		begin.LookAge = &age
	}
	return api.store.Tx(ctx, func(q *db.Queries) error {
		if err := q.SkipQuota(ctx); err != nil {
			return err
		}
		begun, err := q.BeginReport(ctx, begin)
		answer.At, answer.ReportInterval, answer.Maintenance = begun.Now, int(begun.ReportInterval), begun.Maintained
		if errors.Is(err, pgx.ErrNoRows) {
			return checkSessionNumber(ctx, q, a, in.Seq) // otherwise the report is only older than the latest
		}
		err = store.FirstErrorOf(err, func() error {
			answer.Marks, err = writeHostState(ctx, q, a.HostID, in)
			return err
		})
		if err != nil || !begun.Sighted {
			return err
		}
		return q.HastenRetries(ctx, a.HostID)
	})
}

func writeHostState(ctx context.Context, q *db.Queries, host fleet.HostID, in wire.Report) (marks map[fleet.VMID]string, err error) {
	seq, s := in.Seq, *in.State
	s.Host.Settings = s.Host.Settings.Valid()
	if err := q.ReportHost(ctx, db.ReportHostParams{HostID: host, Seq: seq, Status: &s.Host}); err != nil {
		return nil, fmt.Errorf("store the host's status: %w", err)
	}
	if !s.Host.Connected {
		// The agent has no connection to its hypervisor. The VMs, pools and networks that the report lacks must not count as
		// removed.
		return nil, nil
	}
	if marks, err = writeReportedVMs(ctx, q, host, seq, s); err != nil {
		return nil, fmt.Errorf("store the reported VMs: %w", err)
	}
	if err := writeAssignmentReports(ctx, q, host, in); err != nil {
		return nil, fmt.Errorf("store the reported pools and networks: %w", err)
	}
	if err := q.ReportGroups(ctx, db.ReportGroupsParams{HostID: host, Seq: seq, Groups: mustJSON(s.Groups)}); err != nil {
		return nil, fmt.Errorf("store the reported security groups: %w", err)
	}
	return marks, nil
}

func writeReportedVMs(ctx context.Context, q *db.Queries, host fleet.HostID, seq int64, s wire.State) (marks map[fleet.VMID]string, err error) {
	ids := make([]string, len(s.VMs))
	for i, vm := range s.VMs {
		ids[i] = string(vm.ID)
	}
	err = q.ReportVMs(ctx, db.ReportVMsParams{HostID: host, Seq: seq, Vms: mustJSON(s.VMs)})
	err = store.FirstErrorOf(err, func() error {
		return q.ReportAbsentVMs(ctx, db.ReportAbsentVMsParams{HostID: host, Seq: seq, Ids: ids})
	})
	if err != nil {
		return nil, err
	}
	if err := queueApplyOfVMsAheadOfRestoredDatabase(ctx, q, host, seq, s.VMs); err != nil {
		return nil, err
	}
	d, err := classifyDomains(ctx, q, host, s)
	err = store.FirstErrorOf(err, func() error { return writeReportsOfOtherHostsVMs(ctx, q, host, d.otherHostsVMs) })
	if err != nil {
		return nil, err
	}
	foundIDs := make([]string, len(d.unmanaged))
	for i, f := range d.unmanaged {
		foundIDs[i] = string(f.ID)
	}
	if err := q.DropDiscoveredVMs(ctx, db.DropDiscoveredVMsParams{HostID: host, Ids: foundIDs}); err != nil || len(d.unmanaged) == 0 {
		return d.missingMarks, err
	}
	return d.missingMarks, q.ReportDiscoveredVMs(ctx, db.ReportDiscoveredVMsParams{HostID: host, Found: mustJSON(d.unmanaged)})
}

// queueApplyOfVMsAheadOfRestoredDatabase queues vm.apply for VMs whose domain has a newer generation than the database,
// which was restored from a backup. The agent does not change such a domain and reports the difference as drift.
func queueApplyOfVMsAheadOfRestoredDatabase(ctx context.Context, q *db.Queries, host fleet.HostID, seq int64, vms []wire.VMReport) error {
	if !slices.ContainsFunc(vms, func(r wire.VMReport) bool { return r.Stamped > 0 }) {
		return nil
	}
	all, err := q.VMsUnrecorded(ctx, db.VMsUnrecordedParams{HostID: host, Seq: seq, Vms: mustJSON(vms)})
	for _, vm := range all {
		if _, err := store.JoinOrQueueJob(ctx, q, fleet.SystemActor, db.JoinQueueParams{
			HostID: host, ProjectID: &vm.ProjectID, Kind: fleet.VMApply, Subject: fleet.SubjectVM(vm.ID), SubjectName: vm.Name, Generation: vm.Generation,
		}); err != nil {
			return err
		}
	}
	return err
}

// mustJSON encodes values of our own types, which cannot fail. A nil slice becomes an empty array.
func mustJSON[T any](v []T) []byte {
	if v == nil {
		v = []T{}
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
