package agentapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/wire"
)

// Claim gives the host's agent its next jobs, at most one a subject, with the newest truth about each. With nothing to do
// it parks until a job is announced or wait has passed; then the claim is empty.
func (box *API) Claim(ctx context.Context, a fleet.Actor, in wire.ClaimRequest, wait time.Duration) (wire.Claim, error) {
	out, err := box.NewJobWaiter(ctx, a)
	if err != nil {
		return wire.Claim{}, err
	}
	defer out.sub.Close()
	claim, _, err := out.Claim(ctx, in, wait)
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
		defer store.Recovered(&err)
		out, err = do()
	}()
	<-done
	return out, err
}

// claimWaiting is claimNow for who comes to park: mostly nothing waits, which costs much less to see than to try.
func (box *API) claimWaiting(ctx context.Context, a fleet.Actor, limit int32) ([]wire.Work, error) {
	look, err := box.store.CheckForWork(ctx, db.CheckForWorkParams{HostID: a.HostID, Session: hashSession(a)})
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

func (box *API) claimNow(ctx context.Context, a fleet.Actor, limit int32) ([]wire.Work, error) {
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
func (box *API) claimFor(ctx context.Context, patience time.Duration, all []claimant) ([]claimed, error) {
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
	of := map[string]*claimed{} // by session: one that has ended asks beside the live one; whoever asks twice gets it once
	for i, c := range slices.Backward(all) {
		of[string(hashSession(c.Actor))] = &out[i]
	}
	for _, j := range jobs {
		c := of[string(j.Session)]
		if c == nil {
			continue
		}
		w, err := workOf(j)
		c.work, c.err = append(c.work, w), errors.Join(c.err, err)
	}
	return out, nil
}

// aboutSubject is what the database says of a job's subject (work_of, work_of_volume): a pool, a volume's pool, a network, or a VM with what belongs to it.
type aboutSubject struct {
	Pool     *fleet.Pool        `json:"pool"` // also a volume's
	Held     *fleet.VolumeInUse `json:"held"`
	Network  *fleet.Network     `json:"network"`
	VM       *fleet.VM          `json:"vm"`
	Project  string             `json:"project"` // its name
	Mark     string             `json:"mark"`
	Made     []fleet.Volref     `json:"made"`
	Networks []string           `json:"networks"` // each "id kind name"
	Pools    []fleet.Pool       `json:"pools"`
}

// workOf adds to a job the newest truth about its subject. A VM that is gone leaves its job without one; the agent ends it.
func workOf(row db.ClaimJobsRow) (wire.Work, error) {
	j := row.Job
	w := wire.Work{
		ID: j.ID, Kind: j.Kind, Subject: j.Subject, Epoch: j.Epoch, Attempt: int(j.Attempt), Generation: j.Generation, Args: j.Args, Stop: j.Stop,
	}
	if err := addFilters(&w, row.Filters); err != nil {
		return w, fmt.Errorf("security groups of job %s: %w", j.ID, err)
	}
	if len(row.Source) > 0 { // what a volume is copied from
		w.Pools = make([]fleet.Pool, 1)
		if err := json.Unmarshal(row.Source, &w.Pools[0]); err != nil {
			return w, fmt.Errorf("source of job %s: %w", j.ID, err)
		}
	}
	if j.Kind == fleet.VMPlan {
		row.Work = row.Plan
	}
	if len(row.Work) == 0 {
		return w, nil
	}
	var about aboutSubject
	if err := json.Unmarshal(row.Work, &about); err != nil {
		return w, fmt.Errorf("subject of job %s: %w", j.ID, err)
	}
	w.Held = about.Held
	if w.Pool = about.Pool; w.Pool != nil && w.Held == nil {
		w.Generation = w.Pool.Generation
	}
	if w.Network = about.Network; w.Network != nil {
		w.Generation, w.Network.Peers = w.Network.Generation, row.Peers
	}
	if w.VM = about.VM; w.VM == nil {
		return w, addPools(&w, row.MovePools)
	}
	store.NameNetworks(w.VM.Spec.NICs, about.Networks)
	w.Generation, w.SpecHash, w.Made, w.Project, w.Mark = w.VM.Generation, row.SpecHash, about.Made, about.Project, about.Mark
	for _, id := range w.VM.Spec.Pools() {
		if i := slices.IndexFunc(about.Pools, func(p fleet.Pool) bool { return p.ID == id }); i >= 0 {
			w.Pools = append(w.Pools, about.Pools[i])
		}
	}
	return w, addPools(&w, row.MovePools)
}

// addPools adds those that the VM's spec does not name yet: into which its disk is moved, or out of which an export reads.
func addPools(w *wire.Work, text []byte) error {
	var more []fleet.Pool
	if len(text) > 0 {
		if err := json.Unmarshal(text, &more); err != nil {
			return fmt.Errorf("pools of job %s: %w", w.ID, err)
		}
	}
	for _, p := range more {
		if !slices.ContainsFunc(w.Pools, func(o fleet.Pool) bool { return o.ID == p.ID }) {
			w.Pools = append(w.Pools, p)
		}
	}
	return nil
}

// Progress notes how far a job is and renews its lease. It answers whether people took the job back meanwhile.
func (box *API) Progress(ctx context.Context, a fleet.Actor, id fleet.JobID, in wire.Progress) (out wire.ProgressAnswer, err error) {
	if err := policy.Check(a, policy.AgentTalk, ""); err != nil {
		return out, err
	}
	if err := store.CheckID(id, "job"); err != nil {
		return out, err
	}
	out.Stop, err = box.store.NoteProgress(ctx, db.NoteProgressParams{
		Lease: fleet.Lease,
		ID:    id, HostID: a.HostID, Epoch: in.Epoch, Progress: int32(min(max(in.Percent, 0), 100)), Note: cut(in.Note, 200),
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return out, fleet.Errorf(fleet.Conflict, "This job is no longer yours.")
	}
	return out, store.Err(err)
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
