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

// Claim assigns queued jobs of the host to the agent and returns them, at most one per subject, each with the current
// spec. If no job is queued, it waits until one is. After wait it returns an empty claim.
func (api *API) Claim(ctx context.Context, a fleet.Actor, in wire.ClaimRequest, wait time.Duration) (wire.Claim, error) {
	out, err := api.NewJobWaiter(ctx, a)
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

// runOnOwnStack calls do on a separate goroutine to keep the caller's stack small. A claim that waits for jobs then
// keeps a stack of 4 KiB instead of the 8 KiB that a database query needs. This matters with ten thousand agents;
// BenchmarkParkedAgents measures it.
func runOnOwnStack[T any](do func() (T, error)) (out T, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer store.RecoverAsError(&err)
		out, err = do()
	}()
	<-done
	return out, err
}

// claimIfJobQueued claims jobs only if one is queued. Usually none is queued, and this check costs much less than a
// claim.
func (api *API) claimIfJobQueued(ctx context.Context, a fleet.Actor, limit int32) ([]wire.Work, error) {
	check, err := api.store.CheckForWork(ctx, db.CheckForWorkParams{HostID: a.HostID, Session: hashAgentSession(a)})
	switch {
	case err != nil:
		return nil, store.UserError(err)
	case !check.Proven:
		return nil, sessionEndedError()
	case !check.Waits:
		return nil, nil
	}
	return api.claimNow(ctx, a, limit)
}

func (api *API) claimNow(ctx context.Context, a fleet.Actor, limit int32) ([]wire.Work, error) {
	got, err := api.claims.processOne(ctx, claimingHost{a, limit})
	if err == nil && len(got.work) == 0 {
		err = checkSession(ctx, api.store.Queries, a)
	}
	return got.work, store.UserError(cmp.Or(err, got.err))
}

// claimingHost is an agent that claims at most limit jobs for its host.
type claimingHost struct {
	fleet.Actor
	limit int32
}

// claimResult is the result of one agent's claim.
type claimResult struct {
	work []wire.Work
	err  error // error in building the work of claimed jobs; the jobs stay claimed
}

// claimBatch claims jobs for many hosts in one statement.
func (api *API) claimBatch(ctx context.Context, patience time.Duration, all []claimingHost) ([]claimResult, error) {
	params := db.ClaimJobsParams{Lease: fleet.Lease}
	for _, c := range all {
		params.Hosts, params.Sessions, params.Most = append(params.Hosts, string(c.HostID)), append(params.Sessions, hashAgentSession(c.Actor)), append(params.Most, c.limit)
	}
	var jobs []db.ClaimJobsRow
	err := api.store.RunPipelinedTx(ctx, patience, func(t store.PipelinedTx) (err error) {
		jobs, err = t.QueriesWithCommit().ClaimJobs(ctx, params)
		return err
	})
	out := make([]claimResult, len(all))
	if err != nil || len(jobs) == 0 {
		return out, err
	}
	// The map's key is the agent session, because an ended session of the same host may claim in the same batch. If one
	// session sends two claims, only the first claim gets jobs.
	of := map[string]*claimResult{}
	for i, c := range slices.Backward(all) {
		of[string(hashAgentSession(c.Actor))] = &out[i]
	}
	for _, j := range jobs {
		c := of[string(j.Session)]
		if c == nil {
			continue
		}
		w, err := workFromRow(j)
		c.work, c.err = append(c.work, w), errors.Join(c.err, err)
	}
	return out, nil
}

// jobSubjectData is the JSON of a job's subject from the SQL functions work_of and work_of_volume: a pool, a volume's
// pool, a network, or a VM with its dependencies. Its keys are those of wire.Work.
type jobSubjectData struct {
	*wire.Work
	Networks []string `json:"networks"` // each "id kind name"
}

// workFromRow returns the job with the current spec of its subject. If the subject is a VM that no longer exists or is on
// another host, the spec is missing and the agent ends the job.
func workFromRow(row db.ClaimJobsRow) (wire.Work, error) {
	j := row.Job
	w := wire.Work{
		ID: j.ID, Kind: j.Kind, Subject: j.Subject, Epoch: j.Epoch, Attempt: int(j.Attempt), Generation: j.Generation, Args: j.Args, Stop: j.Stop,
	}
	if j.Kind == fleet.VMPlan {
		row.Work = row.Plan
	}
	arrived, err := arrivedVM(j, row.Work)
	if err != nil || arrived != nil {
		w.VM, w.Generation = arrived, j.Generation
		return w, err
	}
	if j.Kind.Info().Type != fleet.TypeVM || len(row.Work) > 0 { // otherwise the VM is not on this host
		if err := addSecurityGroupsToWork(&w, row.Filters); err != nil {
			return w, fmt.Errorf("read the security groups of job %s: %w", j.ID, err)
		}
	}
	if len(row.Source) > 0 { // source pool of a volume copy
		w.Pools = make([]fleet.Pool, 1)
		if err := json.Unmarshal(row.Source, &w.Pools[0]); err != nil {
			return w, fmt.Errorf("read the source pool of job %s: %w", j.ID, err)
		}
	}
	w.Adopted = row.Adopted
	if len(row.Work) == 0 {
		return w, addPoolsToWork(&w, row.MovePools)
	}
	data := jobSubjectData{Work: &w}
	if err := json.Unmarshal(row.Work, &data); err != nil {
		return w, fmt.Errorf("read the subject of job %s: %w", j.ID, err)
	}
	w.Generation = w.SubjectGeneration()
	if w.Network != nil {
		w.Network.Peers = row.Peers
	}
	if w.VM != nil {
		store.FillNetworkNames(w.VM.Spec.NICs, data.Networks)
		w.SpecHash, w.Pools = row.SpecHash, poolsInOrder(w.VM.Spec.Pools(), w.Pools)
	}
	return w, addPoolsToWork(&w, row.MovePools)
}

// arrivedVM returns what the source host of a live migration still gets of a VM that has arrived on the target: enough to
// remove its own guest. The VM's spec and ownership mark are only for the VM's host, because the job of a source host can
// stay open for any time. It returns nil for other jobs.
func arrivedVM(j db.Job, work []byte) (*fleet.VM, error) {
	if j.Kind != fleet.VMMigrate || len(work) == 0 {
		return nil, nil
	}
	var data struct {
		VM fleet.VM `json:"vm"`
	}
	if err := json.Unmarshal(work, &data); err != nil {
		return nil, fmt.Errorf("read the VM of job %s: %w", j.ID, err)
	}
	if data.VM.HostID == j.HostID {
		return nil, nil
	}
	return &fleet.VM{Meta: fleet.Meta{ID: data.VM.ID, Name: data.VM.Name, HostID: data.VM.HostID, Generation: data.VM.Generation}}, nil
}

// poolsInOrder returns the pools with these IDs, in the order of the IDs.
func poolsInOrder(ids []fleet.PoolID, pools []fleet.Pool) (out []fleet.Pool) {
	for _, id := range ids {
		if i := slices.IndexFunc(pools, func(p fleet.Pool) bool { return p.ID == id }); i >= 0 {
			out = append(out, pools[i])
		}
	}
	return out
}

// addPoolsToWork adds further pools that the job needs, such as the destination pool of a disk migration or the source
// pools of an export.
func addPoolsToWork(w *wire.Work, text []byte) error {
	var more []fleet.Pool
	if len(text) > 0 {
		if err := json.Unmarshal(text, &more); err != nil {
			return fmt.Errorf("read the pools of job %s: %w", w.ID, err)
		}
	}
	for _, p := range more {
		if !slices.ContainsFunc(w.Pools, func(o fleet.Pool) bool { return o.ID == p.ID }) {
			w.Pools = append(w.Pools, p)
		}
	}
	return nil
}

// Progress records a job's progress and renews its lease. The response includes a user's cancellation, if any.
func (api *API) Progress(ctx context.Context, a fleet.Actor, id fleet.JobID, in wire.Progress) (out wire.ProgressAnswer, err error) {
	if err := policy.Check(a, policy.ActAsAgent, ""); err != nil {
		return out, err
	}
	if err := store.CheckID(id, "job"); err != nil {
		return out, err
	}
	out.Stop, err = api.store.NoteProgress(ctx, db.NoteProgressParams{
		Lease: fleet.Lease,
		ID:    id, HostID: a.HostID, Epoch: in.Epoch, Progress: int32(min(max(in.Percent, 0), 100)), Note: truncateToBytes(in.Note, 200),
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return out, fleet.Errorf(fleet.Conflict, "This job is no longer assigned to this agent.")
	}
	return out, store.UserError(err)
}

// truncateToBytes shortens s to at most n bytes without splitting a rune.
func truncateToBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}
