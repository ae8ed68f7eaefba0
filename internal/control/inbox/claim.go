package inbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/wire"
)

// Claim gives the host's agent its next jobs, at most one a subject, with the newest truth about each. With nothing to do
// it parks until a job is announced or wait has passed; then the claim is empty.
func (box *Inbox) Claim(ctx context.Context, a fleet.Actor, in wire.ClaimRequest, wait time.Duration) (wire.Claim, error) {
	out, err := box.LookOut(ctx, a)
	if err != nil {
		return wire.Claim{}, err
	}
	defer out.sub.Close()
	claim, _, err := out.Look(ctx, in, wait)
	if err != nil || len(claim.Jobs) > 0 {
		return claim, err
	}
	return out.Wait(ctx, in, wait, nil)
}

// apart runs do on a stack of its own and forgets it: a parked claim keeps a stack of 4 KiB instead of the 8 KiB that a
// look into the database needs, which counts at ten thousand of them. BenchmarkParkedAgents watches it.
func apart[T any](do func() (T, error)) (out T, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil { // here it would end the portal
				err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		out, err = do()
	}()
	<-done
	return out, err
}

// claimWaiting is claimNow for who comes to park: mostly nothing waits, which costs much less to see than to try.
func (box *Inbox) claimWaiting(ctx context.Context, a fleet.Actor, limit int32) ([]wire.Work, error) {
	look, err := box.store.LookForWork(ctx, db.LookForWorkParams{HostID: a.HostID, Session: hashSession(a)})
	switch {
	case err != nil:
		return nil, store.Err(err)
	case !look.Proven:
		return nil, sessionEnded()
	case !look.Waits:
		return nil, nil
	}
	return box.claimNow(ctx, a, limit)
}

func (box *Inbox) claimNow(ctx context.Context, a fleet.Actor, limit int32) ([]wire.Work, error) {
	got, err := box.claims.do(ctx, claimant{a, limit})
	if err == nil && len(got.work) == 0 {
		err = proveSession(ctx, box.store.Queries, a)
	}
	return got.work, store.Err(cmp.Or(err, got.err))
}

// claimant is a host that takes at most limit jobs.
type claimant struct {
	fleet.Actor
	limit int32
}

// claimed is what one claimant gets.
type claimed struct {
	work []wire.Work
	err  error // of what could not be described; the host has taken it all the same
}

// claimFor claims for many hosts at once.
func (box *Inbox) claimFor(ctx context.Context, patience time.Duration, all []claimant) ([]claimed, error) {
	ask := db.ClaimJobsParams{Lease: fleet.Lease}
	for _, c := range all {
		ask.Hosts, ask.Sessions, ask.Most = append(ask.Hosts, string(c.HostID)), append(ask.Sessions, hashSession(c.Actor)), append(ask.Most, c.limit)
	}
	var jobs []db.ClaimJobsRow
	err := box.store.Quick(ctx, patience, func(t store.Quick) (err error) {
		jobs, err = t.Last().ClaimJobs(ctx, ask)
		return err
	})
	out := make([]claimed, len(all))
	if err != nil || len(jobs) == 0 {
		return out, err
	}
	work, undescribed := box.describe(ctx, jobs)
	of := map[string][]int{} // by session: one that has ended asks beside the live one
	for i, j := range jobs {
		of[string(j.Session)] = append(of[string(j.Session)], i)
	}
	for i, c := range all {
		session := string(hashSession(c.Actor))
		mine := of[session]
		delete(of, session) // whoever asks twice gets it once
		switch {
		case len(mine) == 0:
		case undescribed == nil:
			for _, j := range mine {
				out[i].work = append(out[i].work, work[j])
			}
		default: // not for what is wrong with another host's
			own := make([]db.ClaimJobsRow, len(mine))
			for k, j := range mine {
				own[k] = jobs[j]
			}
			out[i].work, out[i].err = box.describe(ctx, own)
		}
	}
	return out, nil
}

// describe adds to each job the newest truth about its subject. A VM that is gone leaves its job without one; the agent ends it.
func (box *Inbox) describe(ctx context.Context, jobs []db.ClaimJobsRow) ([]wire.Work, error) {
	var vmIDs []string
	for _, row := range jobs {
		if noun, id := row.Job.Subject.Split(); noun == "vm" {
			vmIDs = append(vmIDs, id)
		}
	}
	vms := map[fleet.VMID]*vmWork{}
	if len(vmIDs) > 0 {
		rows, err := box.store.VMsForWork(ctx, vmIDs)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			store.NameNetworks(row.VM.Spec.NICs, row.Networks)
			vm := &vmWork{VM: store.VMOf(row.VM), project: row.ProjectName, mark: row.Mark}
			if err := errors.Join(json.Unmarshal(row.Made, &vm.made), json.Unmarshal(row.Pools, &vm.pools)); err != nil {
				return nil, fmt.Errorf("disks and pools of VM %s: %w", vm.ID, err)
			}
			vms[vm.ID] = vm
		}
	}
	out := make([]wire.Work, len(jobs))
	for i, row := range jobs {
		if out[i] = workOf(row.Job, vms); len(row.Pool) > 0 {
			if err := json.Unmarshal(row.Pool, &out[i].Pool); err != nil {
				return nil, fmt.Errorf("pool of job %s: %w", row.Job.ID, err)
			}
			out[i].Generation = out[i].Pool.Generation
		}
	}
	return out, nil
}

// vmWork is what a host is told of a VM.
type vmWork struct {
	fleet.VM
	made    []fleet.Volref
	pools   []fleet.Pool
	project string
	mark    string
}

func workOf(j db.Job, vms map[fleet.VMID]*vmWork) wire.Work {
	w := wire.Work{
		ID: j.ID, Kind: j.Kind, Subject: j.Subject, Epoch: j.Epoch, Attempt: int(j.Attempt), Generation: j.Generation, Args: j.Args,
	}
	_, id := j.Subject.Split()
	if known := vms[fleet.VMID(id)]; known != nil && known.HostID == j.HostID {
		vm := known.VM
		w.VM, w.Generation, w.Made, w.Project, w.Mark = &vm, vm.Generation, known.made, known.project, known.mark
		vm.Status, vm.Elsewhere = nil, nil // the host knows better
		for _, id := range vm.Spec.Pools() {
			if i := slices.IndexFunc(known.pools, func(p fleet.Pool) bool { return p.ID == id }); i >= 0 {
				w.Pools = append(w.Pools, known.pools[i])
			}
		}
	}
	return w
}

// Progress notes how far a job is and renews its lease.
func (box *Inbox) Progress(ctx context.Context, a fleet.Actor, id fleet.JobID, in wire.Progress) error {
	if err := policy.Check(a, policy.AgentTalk, ""); err != nil {
		return err
	}
	if err := store.CheckID(id, "job"); err != nil {
		return err
	}
	n, err := box.store.NoteProgress(ctx, db.NoteProgressParams{
		Lease: fleet.Lease,
		ID:    id, HostID: a.HostID, Epoch: in.Epoch, Progress: int32(min(max(in.Percent, 0), 100)), Note: cut(in.Note, 200),
	})
	if err == nil && n == 0 {
		return fleet.Errorf(fleet.Conflict, "This job is no longer yours.")
	}
	return store.Err(err)
}

// cut bounds text to n bytes on a rune's edge.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}
