package agentapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/adoption"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// Roles of the jobs of an adoption in their task.
const (
	roleDefinition = "definition" // reads the domain's definition
	roleAdoptedVM  = "vm"         // marks the domain as the VM's
)

// Adoption is a discovered VM that is to become a VM of a project.
type Adoption struct {
	HostID  fleet.HostID
	ID      fleet.VMID
	Project string // name of the project
	fleet.AdoptionParams
	Spec    fleet.VMSpec
	Backing []fleet.Volref // volumes that back the disks
}

// Refusals returns the reasons of the portal against the adoption, each a sentence. pools are the pools of the host. No
// reason names another VM.
func (in Adoption) Refusals(ctx context.Context, q *db.Queries, pools []db.Pool) (out []string, err error) {
	var checks fleet.Checks
	fleet.CheckName(&checks, "name", in.Name)
	if err := checks.Err(); err != nil {
		out = append(out, "The name "+in.Name+" is not possible. "+fieldMessages(err))
	}
	taken, err := q.NamesInUse(ctx, db.NamesInUseParams{ProjectID: string(in.ProjectID), Names: []string{in.Name}})
	if err != nil {
		return nil, err
	}
	if len(taken) > 0 {
		out = append(out, fmt.Sprintf("A VM named %q exists in %s already. Adopt the VM with another name.", in.Name, in.Project))
	}
	known, err := q.DomainsNamed(ctx, []string{string(in.ID)})
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(known, func(r db.DomainsNamedRow) bool { return !r.Found }) {
		out = append(out, "A VM of Quantix has the UUID of this VM already. Release that VM, or give this domain another UUID.")
	}
	if slices.ContainsFunc(known, func(r db.DomainsNamedRow) bool { return r.Found && r.HostID != in.HostID }) {
		out = append(out, "Another host has a domain with the UUID of this VM, too, so the VM could run twice. Undefine one of them with virsh.")
	}
	addresses := make([]string, len(in.Spec.NICs))
	for i, n := range in.Spec.NICs {
		addresses[i] = n.MAC
	}
	if err := q.LockMACs(ctx, addresses); err != nil {
		return nil, err
	}
	others, err := q.MACsOfOthers(ctx, db.MACsOfOthersParams{Macs: addresses, VMID: in.ID})
	if err != nil {
		return nil, err
	}
	for _, o := range others {
		out = append(out, fmt.Sprintf("Another VM has the MAC address %s, too. Change the address of one of them.", o.Mac))
	}
	volumes, err := in.volumeRefusals(ctx, q, pools)
	return append(out, volumes...), err
}

// volumeRefusals returns the reasons against the volumes of the spec: they belong to others, or to no pool of the host.
func (in Adoption) volumeRefusals(ctx context.Context, q *db.Queries, pools []db.Pool) (out []string, err error) {
	refs := slices.Clone(in.Backing)
	for _, d := range in.Spec.Disks {
		refs = append(refs, d.Ref())
	}
	for _, m := range in.Spec.Media() {
		refs = append(refs, m.Volref)
	}
	var params db.VolumeOwnersParams
	for _, r := range refs {
		if !slices.ContainsFunc(pools, func(p db.Pool) bool { return p.ID == r.PoolID }) {
			out = append(out, fmt.Sprintf("The volume %s is in no pool of the host.", r.Volume))
		}
		params.Pools, params.Volumes = append(params.Pools, string(r.PoolID)), append(params.Volumes, r.Volume)
	}
	owners, err := q.VolumeOwners(ctx, params)
	if err != nil {
		return nil, err
	}
	for _, o := range owners {
		k := slices.IndexFunc(pools, func(p db.Pool) bool { return string(p.ID) == o.PoolID })
		if o.ID != in.ID && k >= 0 && (pools[k].Spec.Shared || o.HostID == in.HostID) {
			out = append(out, fmt.Sprintf("The volume %s belongs to another VM of Quantix. Give this VM a disk of its own.", o.Volume))
		}
	}
	for _, d := range in.Spec.Disks {
		text, err := q.VolumeInUse(ctx, db.VolumeInUseParams{PoolID: string(d.PoolID), Volume: d.Volume, Host: string(in.HostID)})
		if err != nil {
			return nil, err
		}
		var users fleet.VolumeUsers
		if err := json.Unmarshal(text, &users); err != nil {
			return nil, fmt.Errorf("read the users of volume %s: %w", d.Volume, err)
		}
		if users.Image != "" || users.CreatedVM != "" {
			out = append(out, fmt.Sprintf("The volume %s is an image of the library, or a VM is being created from it. Give this VM a disk of its own.", d.Volume))
		}
	}
	return out, nil
}

// fieldMessages joins the messages of the error's fields.
func fieldMessages(err error) string {
	e, ok := errors.AsType[*fleet.Error](err)
	if !ok {
		return err.Error()
	}
	var out []string
	for _, f := range e.Fields {
		out = append(out, f.Message)
	}
	return strings.Join(out, " ")
}

// adoptReportedVM makes the VM of a discovered VM whose host has read the definition, and queues the job that marks the
// domain. refusal is the reason why there is no VM; empty: the VM exists.
func adoptReportedVM(ctx context.Context, q *db.Queries, job db.Job, in wire.Finish) (refusal string, err error) {
	id, _ := job.Subject.DiscoveredVM()
	switch {
	case job.Args.Adopt == nil || job.TaskID == nil:
		return "The request of the adoption is missing. Request the adoption again.", nil
	case in.Adoptable == nil:
		return "The host's agent is too old for adoptions. Upgrade the host's agent.", nil
	case len(in.Adoptable.Refusals) > 0:
		return strings.Join(in.Adoptable.Refusals, " "), nil
	}
	a := Adoption{HostID: job.HostID, ID: id, AdoptionParams: *job.Args.Adopt, Spec: adoption.WithoutForeignReferences(in.Adoptable.Spec), Backing: in.Adoptable.Backing}
	if a.Name == "" {
		a.Name = adoption.Name(in.Adoptable.Name)
	}
	if a.Project, err = q.ProjectName(ctx, a.ProjectID); errors.Is(err, pgx.ErrNoRows) {
		return "The project was deleted. Adopt the VM into another project.", nil
	}
	if err != nil {
		return "", err
	}
	pools, err := q.PoolsOfHost(ctx, job.HostID)
	if err != nil {
		return "", err
	}
	verbatim, err := resolveAdoptedNICs(ctx, q, &a)
	if err != nil {
		return "", err
	}
	var checks fleet.Checks
	if a.Spec.Check(&checks, "spec"); checks.Len() > 0 {
		return "Quantix cannot express the definition: " + fieldMessages(checks.Err()), nil
	}
	refusals, err := a.Refusals(ctx, q, pools)
	if err != nil || len(refusals) > 0 {
		return strings.Join(refusals, " "), err
	}
	description, kept := adoption.Description(in.Adoptable.Description)
	if !kept {
		verbatim = append(verbatim, "description: longer than a description of Quantix")
	}
	return addAdoptedVM(ctx, q, job, a, description, adoption.BoundVerbatim(append(verbatim, in.Adoptable.Verbatim...)))
}

// resolveAdoptedNICs gives the NICs the IDs of their networks. It removes NICs on networks that Quantix does not know from
// the spec and returns a text for each.
func resolveAdoptedNICs(ctx context.Context, q *db.Queries, a *Adoption) (verbatim []string, err error) {
	params := db.FindNetworksParams{ProjectID: string(a.ProjectID)}
	for _, n := range a.Spec.NICs {
		kind, name := n.NetworkKindAndName()
		params.Kinds, params.Names = append(params.Kinds, string(kind)), append(params.Names, name)
	}
	rows, err := q.FindNetworks(ctx, params)
	if err != nil {
		return nil, err
	}
	a.Spec.NICs = slices.DeleteFunc(a.Spec.NICs, func(n fleet.NIC) bool {
		kind, name := n.NetworkKindAndName()
		known := slices.ContainsFunc(rows, func(r db.FindNetworksRow) bool { return r.Kind == kind && r.Name == name })
		if !known {
			verbatim = append(verbatim, fmt.Sprintf("NIC %s on %s %s, which is no network of Quantix", n.MAC, kind, name))
		}
		return !known
	})
	for i, n := range a.Spec.NICs {
		kind, name := n.NetworkKindAndName()
		k := slices.IndexFunc(rows, func(r db.FindNetworksRow) bool { return r.Kind == kind && r.Name == name })
		n.NetworkID, n.Network, n.Bridge = rows[k].ID, "", ""
		a.Spec.NICs[i] = n
	}
	return verbatim, nil
}

// addAdoptedVM writes the VM and queues its vm.apply in the adoption's task.
func addAdoptedVM(ctx context.Context, q *db.Queries, job db.Job, a Adoption, description string, verbatim []string) (refusal string, err error) {
	task, subject := *job.TaskID, fleet.SubjectVM(a.ID)
	now, err := q.TimeNow(ctx)
	if err != nil {
		return "", err
	}
	by, err := q.GetTask(ctx, db.GetTaskParams{ID: task, AllProjects: true})
	if err != nil {
		return "", err
	}
	n, err := q.AdoptVM(ctx, db.AdoptVMParams{
		ID: a.ID, ProjectID: a.ProjectID, HostID: a.HostID, Name: a.Name, Description: description, Spec: a.Spec,
		Adoption: &fleet.Adoption{At: now, By: by.Task.CreatedBy, HostName: by.HostName, Verbatim: verbatim},
	})
	if err == nil && n == 0 {
		return fmt.Sprintf("A VM named %q exists in %s already. Adopt the VM with another name.", a.Name, a.Project), nil
	}
	err = store.FirstErrorOf(err, func() error { return q.AddAdoptedDisks(ctx, db.AddAdoptedDisksParams{ID: a.ID, HostID: a.HostID}) })
	err = store.FirstErrorOf(err, func() error {
		return q.NameStep(ctx, db.NameStepParams{Role: roleDefinition, TaskID: &task, Steps: []string{}})
	})
	err = store.FirstErrorOf(err, func() error {
		return q.AddStep(ctx, db.AddStepParams{ID: fleet.NewID[fleet.JobID](), TaskID: &task, Role: roleAdoptedVM, HostID: a.HostID, Kind: fleet.VMApply, Subject: subject})
	})
	err = store.FirstErrorOf(err, func() error {
		return q.MoveTask(ctx, db.MoveTaskParams{ID: task, Subject: subject, ProjectID: &a.ProjectID, SubjectName: a.Name})
	})
	if err != nil {
		return "", err
	}
	actor := fleet.Actor{Name: by.Task.CreatedBy, Address: by.Task.Address}
	if by.Task.UserID != nil {
		actor.UserID = *by.Task.UserID
	}
	return "", store.Audit(ctx, q, actor, "vm.adopt", subject, a.Name, fmt.Sprintf("into %s on %s", a.Project, by.HostName))
}

// forgetReleasedVM removes a VM that its host has released. After a failure, the VM stays.
func forgetReleasedVM(ctx context.Context, q *db.Queries, job db.Job, vm fleet.VMID, in wire.Finish) error {
	if in.Outcome != wire.Done {
		return nil
	}
	err := q.CancelWaitingOf(ctx, db.CancelWaitingOfParams{
		Subject: job.Subject, Kinds: store.ToStrings(fleet.JobKindsWhere(func(k fleet.JobKindInfo) bool { return k.Type == fleet.TypeVM && k.Name != fleet.VMRelease })),
		Error: "Not done: the VM was released.",
	})
	if err != nil {
		return err
	}
	status := fleet.VMStatus{Power: fleet.Absent}
	if in.VM != nil {
		status = *in.VM
		status.Drift, status.Faults, status.Snapshots = nil, nil, nil
	}
	text, err := json.Marshal(status)
	if err != nil {
		return err
	}
	return q.ForgetVM(ctx, db.ForgetVMParams{ID: vm, HostID: job.HostID, Status: text})
}
