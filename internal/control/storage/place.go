package storage

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"quantix/db"
	"quantix/internal/control/placing"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/internal/placement"
)

// CurrentVolumeUse returns what uses the volume now, including requests made after v was read. The pool must be locked.
func CurrentVolumeUse(ctx context.Context, q *db.Queries, v query.VolumeOn) (fleet.VolumeUse, error) {
	use := v.VolumeUse()
	text, err := q.VolumeInUse(ctx, db.VolumeInUseParams{PoolID: string(v.PoolID), Volume: v.Name, Host: string(v.LocalHost())})
	if err != nil {
		return use, err
	}
	var users fleet.VolumeUsers
	if err := json.Unmarshal(text, &users); err != nil {
		return use, fmt.Errorf("read the users of volume %s: %w", v.Name, err)
	}
	use.Disk, use.Drive = cmp.Or(users.Disk, use.Disk), cmp.Or(users.Drive, use.Drive)
	use.CreatedVM, use.Published = users.CreatedVM, users.Published
	work, err := UnfinishedVolumeJobVerb(ctx, q, v.PoolID, v.Name, v.LocalHost())
	use.Work = work
	return use, err
}

// UnfinishedVolumeJobVerb returns the verb of an unfinished job that changes or reads the volume; empty: none. If host is
// not empty, only jobs of that host count, as for a local pool.
func UnfinishedVolumeJobVerb(ctx context.Context, q *db.Queries, pool fleet.PoolID, name string, host fleet.HostID) (string, error) {
	rows, err := q.VolumesAtWork(ctx, string(pool))
	for _, r := range rows {
		ref, _ := r.Subject.Volume()
		if (ref.IsVolumeOrPartialFile(name) || r.Source == name) && (host == "" || host == r.HostID) {
			return r.Kind.Info().Verb, err
		}
	}
	return "", err
}

// ReadPoolSpec returns the spec of the pool.
func ReadPoolSpec(ctx context.Context, q *db.Queries, pool fleet.PoolID) (fleet.PoolSpec, error) {
	rows, err := q.PoolsForWork(ctx, []string{string(pool)})
	switch {
	case err != nil:
		return fleet.PoolSpec{}, err
	case len(rows) == 0:
		return fleet.PoolSpec{}, fleet.Errorf(fleet.NotFound, "There is no such pool.")
	}
	return rows[0].Spec, nil
}

// CheckVolumeNameFree refuses a name that a volume of the pool has, has had or will have. It also refuses the name of a
// partial file that a host has yet to delete, because the deletion would remove the new file. If host is not empty and
// the pool is local, only files of that host count.
func CheckVolumeNameFree(ctx context.Context, q *db.Queries, ref fleet.Volref, host fleet.HostID, shared bool) error {
	of := string(host)
	if shared {
		of = ""
	}
	taken, err := q.VolumeNameInUse(ctx, db.VolumeNameInUseParams{PoolID: string(ref.PoolID), Volume: ref.Volume, Host: of})
	if err != nil {
		return err
	}
	var checks fleet.Checks
	if taken {
		checks.Add("name", "The pool has a volume of this name, had one as a VM's disk, or one is being made. Choose another name.")
		return checks.Err()
	}
	work, err := UnfinishedVolumeJobVerb(ctx, q, ref.PoolID, ref.Volume+fleet.PartialSuffix, fleet.HostID(of))
	if err == nil && work != "" {
		err = fleet.Errorf(fleet.Conflict, "The host is still removing a partial file of an earlier volume %s. Try again when that is done, or choose another name.", ref.Volume)
	}
	return err
}

// IsNameTakenOrInvalid reports whether err is a refusal by CheckVolumeNameFree, so that the caller may try another name.
func IsNameTakenOrInvalid(err error) bool {
	code := fleet.CodeOf(err)
	return code == fleet.Invalid || code == fleet.Conflict
}

// HostChoice limits the hosts that may run a volume job.
type HostChoice struct {
	Named      fleet.HostID    // empty: any host
	Among      []query.HostRef // the hosts with the volume; nil: any host
	Overcommit bool            // allow overcommit of the pool
}

// FindHostForVolumeJob returns the named host, or else an online host with the pool active and enough space. It refuses
// if no host, or not the named host, is suitable.
func FindHostForVolumeJob(ctx context.Context, q *db.Queries, a fleet.Actor, j VolumeJob, choice HostChoice) (query.HostRef, error) {
	disks := []fleet.Disk{{PoolID: j.Ref.PoolID, SizeBytes: j.Params.TakesBytes}}
	hosts, err := placing.Candidates{Host: choice.Named, Spec: fleet.VMSpec{Disks: disks}}.Read(ctx, q, a)
	if err != nil {
		return query.HostRef{}, err
	}
	var best *placement.Host
	var faults []placement.Fault
	for i := range hosts {
		h := &hosts[i]
		if choice.Among != nil && !slices.ContainsFunc(choice.Among, func(r query.HostRef) bool { return r.ID == h.ID }) {
			continue
		}
		h.Overcommit = choice.Overcommit
		wrong := placement.DiskFaults(disks, *h)
		switch {
		case len(wrong) > 0 && (faults == nil || h.Pools[j.Ref.PoolID].Assigned):
			faults = wrong
		case len(wrong) == 0 && (best == nil || h.Pools[j.Ref.PoolID].FreeBytes > best.Pools[j.Ref.PoolID].FreeBytes):
			best = h
		}
	}
	if best != nil {
		return query.HostRef{ID: best.ID, Name: best.Name}, nil
	}
	return query.HostRef{}, noHostForJobError(j, faults, choice.Named)
}

// noHostForJobError returns the error that explains why no host can run the job.
func noHostForJobError(j VolumeJob, faults []placement.Fault, named fleet.HostID) error {
	var checks fleet.Checks
	for _, f := range faults {
		switch {
		case f.Overcommittable:
			checks.Add("sizeBytes", "%s", f.Message)
			checks.Add("overcommit", "To proceed anyway, overcommit the pool.")
		case named == "":
			return fleet.Errorf(fleet.Conflict, "No host can do this now. %s", f.Message)
		default:
			checks.Add("hostId", "%s", f.Message)
		}
	}
	if len(faults) == 0 {
		return fleet.Errorf(fleet.Conflict, "No online host has %s now.", cmp.Or(j.Params.Source, "the pool"))
	}
	return checks.Err()
}

// ChooseVolumeHost returns the named host, or the first online host with the volume if named is empty.
func ChooseVolumeHost(v query.VolumeOn, named fleet.HostID) (query.HostRef, error) {
	for _, h := range v.Hosts {
		if named == "" || h.ID == named {
			return h, nil
		}
	}
	return query.HostRef{}, fleet.Errorf(fleet.Conflict, "No online host has %s now.", v.Name)
}
