package flavors

import (
	"cmp"
	"context"
	"time"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/flavor"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// VMRules returns the rules for the project's VMs that bind the actor, with the flavors that the actor may choose there.
func (f *Flavors) VMRules(ctx context.Context, a fleet.Actor, project fleet.ProjectID) (flavor.Rules, error) {
	if err := policy.Check(a, policy.VMSee, project); err != nil {
		return flavor.Rules{}, store.UnknownProjectError(err)
	}
	r, err := readRules(ctx, f.store.Queries, a, project)
	if err == nil {
		err = readFlavorsOfProject(ctx, f.store.Queries, &r, project)
	}
	return r, store.UserError(err)
}

// readRules returns the project's rules, without flavors.
func readRules(ctx context.Context, q *db.Queries, a fleet.Actor, project fleet.ProjectID) (flavor.Rules, error) {
	row, err := q.ProjectVMRules(ctx, project)
	if err != nil {
		return flavor.Rules{}, store.NotFoundError(err, "project")
	}
	r := flavor.Rules{
		VMRules: row.VMRules, PoolID: fleet.PoolID(row.PoolID), PoolName: row.Pool, NetworkID: fleet.NetworkID(row.NetworkID), NetworkKind: fleet.NetworkKind(row.NetworkKind), NetworkName: row.Network,
		Free: policy.May(a, policy.InfraChange, ""), Approves: policy.May(a, policy.VMApprove, project),
	}
	if len(r.SecurityGroups) == 0 {
		return r, nil
	}
	groups, err := q.GroupsOfProject(ctx, db.GroupsOfProjectParams{Ids: store.ToStrings(r.SecurityGroups), ProjectID: string(project)})
	for _, g := range groups {
		r.Groups = append(r.Groups, flavor.Group{ID: g.ID, Name: g.Name})
	}
	return r, err
}

// readFlavorsOfProject adds the flavors published to the project to its rules; all flavors if the rules do not bind the
// actor.
func readFlavorsOfProject(ctx context.Context, q *db.Queries, r *flavor.Rules, project fleet.ProjectID) error {
	rows, err := q.ListFlavors(ctx, db.ListFlavorsParams{AllFlavors: r.Free, Projects: []string{string(project)}})
	for _, row := range rows {
		r.Flavors = append(r.Flavors, fromRow(row))
	}
	return err
}

// NewVM is a new VM before its creation: what a request names, and what the project's rules add.
type NewVM struct {
	ProjectID  fleet.ProjectID
	FlavorID   flavor.ID // empty: the spec has the size
	ExpiryDays *int      // nil: as the project sets
	flavor.VM
	Derived bool // the source gives the spec, not the request

	Approved bool // an administrator has approved the VM, so that the rules do not bind it
}

// Prepare fills in the flavor and the project's values, and refuses what the project's rules refuse. FlavorName is the
// chosen flavor; empty: none.
func Prepare(ctx context.Context, q *db.Queries, a fleet.Actor, vm *NewVM) (flavorName string, err error) {
	r, err := readRules(ctx, q, a, vm.ProjectID)
	if err != nil {
		return "", store.UserError(err)
	}
	if vm.FlavorID != "" || r.LimitsSizes() {
		if err := readFlavorsOfProject(ctx, q, &r, vm.ProjectID); err != nil {
			return "", store.UserError(err)
		}
	}
	var checks fleet.Checks
	if vm.FlavorID != "" {
		if flavorName = applyFlavor(r, vm); flavorName == "" {
			checks.Add("flavorId", "There is no such flavor, or none that is published to the project.")
			return "", checks.Err()
		}
	}
	vm.Spec.Firmware = cmp.Or(vm.Spec.Firmware, r.DefaultFirmware())
	if vm.ExpiryDays == nil {
		vm.ExpiryDays = &r.ExpiryDays
	}
	if vm.VM.ExpiryDays = *vm.ExpiryDays; vm.VM.ExpiryDays < 0 || vm.VM.ExpiryDays > flavor.MaxExpiryDays {
		checks.Add("expiryDays", "Enter 1 to %d days, or 0 for a VM that does not expire.", flavor.MaxExpiryDays)
	}
	if vm.Derived {
		replaceLockedPlaces(r, vm)
	}
	if !vm.Approved {
		r.Check(&checks, flavor.VM{}, vm.VM)
	}
	return flavorName, checks.Err()
}

// applyFlavor gives the VM the size of its flavor and returns the flavor's name; empty: there is no such flavor.
func applyFlavor(r flavor.Rules, vm *NewVM) string {
	for _, f := range r.Flavors {
		if f.ID == vm.FlavorID {
			vm.Spec = f.ApplyTo(vm.Spec, vm.CopiedDisks)
			return f.Name
		}
	}
	return ""
}

// replaceLockedPlaces moves the devices that the source of a VM gives to the locked pool and network: the request does
// not name them, so it cannot correct them.
func replaceLockedPlaces(r flavor.Rules, vm *NewVM) {
	vm.Spec.Disks, vm.Spec.NICs = append([]fleet.Disk(nil), vm.Spec.Disks...), append([]fleet.NIC(nil), vm.Spec.NICs...)
	for i := range vm.Spec.Disks {
		if r.Locks(flavor.KeyPool) && r.PoolID != "" {
			vm.Spec.Disks[i].PoolID = r.PoolID
		}
	}
	for i, n := range vm.Spec.NICs {
		if r.Locks(flavor.KeyNetwork) && r.NetworkID != "" && n.NetworkID != r.NetworkID {
			vm.Spec.NICs[i] = n.WithNetwork(r.NetworkID, r.NetworkKind, r.NetworkName)
		}
	}
}

// VMNeedsApproval reports whether the actor's new VMs in the project need approval. An unknown project needs none.
func (f *Flavors) VMNeedsApproval(ctx context.Context, a fleet.Actor, project fleet.ProjectID) (bool, error) {
	if project == "" {
		return false, nil
	}
	if err := policy.Check(a, policy.VMChange, project); err != nil {
		return false, err
	}
	needed, err := NeedsApproval(ctx, f.store.Queries, a, project)
	if fleet.CodeOf(err) == fleet.NotFound {
		return false, nil
	}
	return needed, err
}

// NeedsApproval reports whether the actor's new VMs in the project need approval.
func NeedsApproval(ctx context.Context, q *db.Queries, a fleet.Actor, project fleet.ProjectID) (bool, error) {
	if policy.May(a, policy.VMApprove, project) {
		return false, nil
	}
	row, err := q.ProjectVMRules(ctx, project)
	if err != nil {
		return false, store.NotFoundError(err, "project")
	}
	return row.VMRules.Approval, nil
}

// CheckNames refuses names of new VMs that do not match the project's pattern.
func CheckNames(ctx context.Context, q *db.Queries, a fleet.Actor, project fleet.ProjectID, names []string) error {
	r, err := readRules(ctx, q, a, project)
	if err != nil {
		return err
	}
	for _, name := range names {
		var checks fleet.Checks
		r.CheckName(&checks, name)
		if checks.Len() > 0 {
			return checks.Err()
		}
	}
	return nil
}

// CheckEdit refuses new values of an edited VM that the project's rules refuse.
func CheckEdit(ctx context.Context, q *db.Queries, a fleet.Actor, old, vm fleet.VM) error {
	if policy.May(a, policy.InfraChange, "") {
		return nil
	}
	r, err := readRules(ctx, q, a, vm.ProjectID)
	if err == nil && r.FlavorsOnly {
		err = readFlavorsOfProject(ctx, q, &r, vm.ProjectID)
	}
	var checks fleet.Checks
	r.Check(&checks, flavor.VM{Name: old.Name, Spec: old.Spec}, flavor.VM{Name: vm.Name, Spec: vm.Spec})
	return store.FirstErrorOf(err, checks.Err)
}

// FillGroups gives new NICs the project's security groups, and refuses others if the project has locked them. old are the
// NICs before the edit; skip reports whether hosts cannot filter the traffic of a NIC.
func FillGroups(ctx context.Context, q *db.Queries, a fleet.Actor, project fleet.ProjectID, old, nics []fleet.NIC, skip func(fleet.NIC) bool) error {
	var r *flavor.Rules
	var checks fleet.Checks
	for i, n := range nics {
		was := sameNIC(old, n)
		if was != nil && skip(*was) {
			was = nil // it had no filters, so it counts as a new NIC
		}
		if skip(n) || was != nil && n.HasSameFilter(*was) {
			continue
		}
		if r == nil {
			read, err := readRules(ctx, q, a, project)
			if err != nil {
				return err
			}
			r = &read
		}
		nics[i] = r.FillGroups(&checks, i, was, n)
	}
	return checks.Err()
}

func sameNIC(all []fleet.NIC, n fleet.NIC) *fleet.NIC {
	for i := range all {
		if n.MAC != "" && all[i].MAC == n.MAC {
			return &all[i]
		}
	}
	return nil
}

// SetExpiry sets the expiry of a new VM, as the project's rules and the request say.
func SetExpiry(ctx context.Context, q *db.Queries, a fleet.Actor, project fleet.ProjectID, id fleet.VMID, days int) error {
	if days == 0 {
		return nil
	}
	r, err := readRules(ctx, q, a, project)
	if err != nil {
		return err
	}
	now, err := q.TimeNow(ctx)
	if err != nil {
		return err
	}
	end := now.Add(time.Duration(days) * 24 * time.Hour)
	p := fleet.VMProtection{ExpiresAt: &end, ExpiryStops: r.ExpiryStops}.WithExpiryAt(now)
	return q.ProtectVM(ctx, db.ProtectVMParams{ID: id, ExpiresAt: p.ExpiresAt, ExpiryStops: p.ExpiryStops, Expiry: p.Expiry})
}

// CheckProtection refuses another expiry of a VM, if its project has locked it.
func CheckProtection(ctx context.Context, q *db.Queries, a fleet.Actor, project fleet.ProjectID, was, is fleet.VMProtection) error {
	if policy.May(a, policy.InfraChange, "") {
		return nil
	}
	r, err := readRules(ctx, q, a, project)
	var checks fleet.Checks
	r.CheckProtection(&checks, was, is)
	return store.FirstErrorOf(err, checks.Err)
}

// SetRules stores the rules for a project's VMs, and refuses invalid ones. pool and network are whether the project has a
// default pool and network.
func SetRules(ctx context.Context, q *db.Queries, project fleet.ProjectID, r fleet.VMRules, pool, network bool) error {
	var checks fleet.Checks
	flavor.CheckRules(&checks, "vmRules", r, pool, network)
	if checks.Len() == 0 && len(r.SecurityGroups) > 0 {
		usable, err := q.GroupsOfProject(ctx, db.GroupsOfProjectParams{Ids: store.ToStrings(r.SecurityGroups), ProjectID: string(project)})
		if err != nil {
			return err
		}
		if len(usable) != len(r.SecurityGroups) {
			checks.Add("vmRules.securityGroups", "Name security groups of the project, or of all projects, each once.")
		}
	}
	if err := checks.Err(); err != nil {
		return err
	}
	return q.SetProjectVMRules(ctx, db.SetProjectVMRulesParams{VMRules: r, ID: project})
}
