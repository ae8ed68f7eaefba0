package control

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/control/flavors"
	"quantix/internal/control/macs"
	"quantix/internal/control/network"
	"quantix/internal/control/placing"
	"quantix/internal/control/store"
	"quantix/internal/firstboot"
	"quantix/internal/flavor"
	"quantix/internal/fleet"
	"quantix/internal/placement"
	"quantix/internal/policy"
)

// CreateVM is the input of Control.CreateVM.
type CreateVM struct {
	ProjectID   fleet.ProjectID   `json:"projectId"`
	Name        string            `json:"name"`
	HostID      fleet.HostID      `json:"hostId,omitempty"` // empty: placement chooses
	ClusterID   fleet.ClusterID   `json:"clusterId,omitempty" doc:"The VM is placed on a host of this cluster; empty: any cluster"`
	Labels      map[string]string `json:"labels,omitempty"`
	Description string            `json:"description,omitempty"`
	// Power, firmware, MAC addresses, pools and networks may be empty and get defaults. disks[].volume must be empty. With
	// From, the whole spec may be empty.
	Spec     fleet.VMSpec `json:"spec,omitzero"`
	From     *VMSource    `json:"from,omitempty"` // nil: from the spec alone
	FlavorID flavor.ID    `json:"flavorId,omitempty" doc:"Flavor that sets vCPUs, memory and, if it has one, the size of the first disk"`
	// ExpiryDays: nil: as the project sets
	ExpiryDays *int            `json:"expiryDays,omitempty" doc:"Days until the VM expires; 0: never; left out: as the project sets"`
	Start      bool            `json:"start,omitempty"`     // same as spec.power "running"
	FirstBoot  *FirstBootInput `json:"firstBoot,omitempty"` // first-boot data for the first start
	// Allow the VM to overcommit the pools and the host. This needs the permission to change infrastructure.
	Overcommit bool `json:"overcommit,omitempty"`

	approval vmApproval // not part of the input
}

// CreateVM works like CreateVMWithTask, without returning the task.
func (c *Control) CreateVM(ctx context.Context, a fleet.Actor, in CreateVM) (fleet.VMView, error) {
	vm, _, err := c.CreateVMWithTask(ctx, a, in)
	return vm, err
}

// CreateVMWithTask writes a new VM and queues its creation, and its start if in.Start is set. The returned task is the
// creation.
func (c *Control) CreateVMWithTask(ctx context.Context, a fleet.Actor, in CreateVM) (vm fleet.VMView, task fleet.TaskID, err error) {
	if err := policy.Check(a, policy.VMChange, in.ProjectID); err != nil {
		return fleet.VMView{}, "", err
	}
	id := fleet.NewID[fleet.VMID]()
	in, from, err := c.planSource(ctx, a, id, in)
	if err != nil {
		return fleet.VMView{}, "", err
	}
	err = c.store.Tx(ctx, func(q *db.Queries) error {
		vm, task, err = c.createVM(ctx, q, a, in, from, "")
		return err
	})
	if err != nil {
		return fleet.VMView{}, "", err
	}
	vm, err = c.shownVM(ctx, a, vm, nil)
	return vm, task, err
}

// completeInput checks the input and fills in defaults: power, firmware, volume names and MAC addresses.
func (in *CreateVM) completeInput(id fleet.VMID) error {
	var checks fleet.Checks
	if in.ProjectID == "" {
		checks.Add("projectId", "Choose the project.")
	}
	if in.HostID != "" && !fleet.IsID(string(in.HostID)) {
		checks.Add("hostId", "There is no such host.")
	}
	if in.ClusterID != "" && !fleet.IsID(string(in.ClusterID)) {
		checks.Add("clusterId", "There is no such cluster.")
	}
	fleet.CheckName(&checks, "name", in.Name)
	fleet.CheckLabels(&checks, "labels", in.Labels)
	fleet.CheckDescription(&checks, "description", in.Description)
	in.Spec = in.Spec.NormalizeDefaults()
	s := &in.Spec
	if s.Firmware == "" {
		s.Firmware = fleet.BIOS
	}
	if s.Power == fleet.Paused {
		checks.Add("spec.power", "A new VM can only be running or stopped. Pause the VM when it runs.")
	}
	if s.Power == "" {
		s.Power = fleet.Stopped
	}
	if in.Start {
		s.Power = fleet.Running
	}
	if s.FirstBoot != (fleet.VMFirstBoot{}) {
		checks.Add("spec.firstBoot", "First-boot data is separate from the VM's other values. Send it in the field firstBoot.")
		s.FirstBoot = fleet.VMFirstBoot{}
	}
	s.NICs = normalizeMACs(s.NICs)
	s.HostDevices = placing.FillDeviceHost(s.HostDevices, in.HostID)
	for i, d := range s.HostDevices {
		if k, _ := d.Kind(); d.HostID == "" && k.Place {
			checks.Add(fmt.Sprintf("spec.hostDevices[%d].device", i), "Choose the host that has the device.")
		}
	}
	for i := range s.Disks {
		if s.Disks[i].Volume != "" && !s.Disks[i].Existing {
			checks.Add(fmt.Sprintf("spec.disks[%d].volume", i), "Leave the volume's name out; a new disk gets one.")
		}
		if s.Disks[i].Image != nil && s.Disks[i].ImageID != "" {
			checks.Add(fmt.Sprintf("spec.disks[%d].imageId", i), "Name an image of the library or a volume of a pool, not both.")
		}
	}
	s.Check(&checks, "spec")
	if in.FirstBoot != nil && in.FirstBoot.CustomizationID == "" {
		firstboot.Check(&checks, "firstBoot", in.FirstBoot.content(), true)
	}
	if err := checks.Err(); err != nil {
		return err
	}
	in.fillSpecDefaults(id)
	return nil
}

// placementMeta returns the new VM's name, project and labels, against which placement rules match.
func (in CreateVM) placementMeta() fleet.Meta {
	return fleet.Meta{Name: in.Name, ProjectID: in.ProjectID, Labels: in.Labels}
}

func (in *CreateVM) fillSpecDefaults(id fleet.VMID) {
	s := &in.Spec
	if in.Labels == nil {
		in.Labels = map[string]string{}
	}
	if s.Disks == nil {
		s.Disks = []fleet.Disk{}
	}
	for i := range s.Disks {
		if !s.Disks[i].Existing {
			s.Disks[i].Volume = newVolumeName(in.Name, id, i+1)
		}
	}
}

// normalizeMACs returns the NICs with MAC addresses in libvirt's spelling.
func normalizeMACs(nics []fleet.NIC) []fleet.NIC {
	out := make([]fleet.NIC, len(nics))
	for i, n := range nics {
		if mac, err := net.ParseMAC(n.MAC); err == nil {
			n.MAC = mac.String()
		}
		out[i] = n
	}
	return out
}

// createVM writes the VM that planSource prepared and queues its creation. child is the child of a bulk task for the
// creation. Without a child, the creation gets a new task.
func (c *Control) createVM(ctx context.Context, q *db.Queries, a fleet.Actor, input CreateVM, from plannedSource, child fleet.TaskID) (fleet.VMView, fleet.TaskID, error) {
	id, plans, in, seals := from.newVMID, from.images, input, secretSealer{c.opts.Vault}
	if err := in.completeInput(id); err != nil { // on a copy of the input, because the transaction may run again
		return fleet.VMView{}, "", err
	}
	if err := in.approval.check(ctx, q, a, in.ProjectID); err != nil {
		return fleet.VMView{}, "", err
	}
	project, err := q.ProjectName(ctx, in.ProjectID)
	if err != nil {
		return fleet.VMView{}, "", store.NotFoundError(err, "project")
	}
	if err := placing.ResolveCPUModel(ctx, q, &in.Spec); err != nil {
		return fleet.VMView{}, "", err
	}
	boot, err := seals.newFirstBoot(ctx, q, a, &in)
	if err != nil {
		return fleet.VMView{}, "", err
	}
	if err := checkReservedFields(a, fleet.VMSpec{}, in.Spec); err != nil {
		return fleet.VMView{}, "", err
	}
	if _, err := placing.MergeRules(a, nil, in.Spec.Rules); err != nil {
		return fleet.VMView{}, "", err
	}
	if err := network.CheckNICs(ctx, q, a, in.ProjectID, in.Spec.NICs); err != nil {
		return fleet.VMView{}, "", err
	}
	if err := checkPoolsForDisks(ctx, q, a, in.ProjectID, in.Spec.Disks); err != nil {
		return fleet.VMView{}, "", err
	}
	if err := placing.ResolveDeviceClasses(ctx, q, a, in.ProjectID, fleet.VMSpec{}, &in.Spec); err != nil {
		return fleet.VMView{}, "", err
	}
	if err := fillFilterSettings(ctx, q, a, in.ProjectID, nil, in.Spec.NICs); err != nil {
		return fleet.VMView{}, "", err
	}
	if err := lockImages(ctx, q, a, in.ProjectID, plans); err != nil {
		return fleet.VMView{}, "", err
	}
	host, err := chooseHost(ctx, q, a, in, plans, from.sourcePools()...)
	if err != nil {
		return fleet.VMView{}, "", err
	}
	in.Spec.Placement.Overcommit = in.Spec.Placement.Overcommit || in.Overcommit
	if err := checkVolumesPublished(ctx, q, a, in.ProjectID, sourceVolumes(in.Spec)); err != nil {
		return fleet.VMView{}, "", err
	}
	if err := from.lockSourceVM(ctx, q, a); err != nil {
		return fleet.VMView{}, "", err
	}
	in.Spec.HostDevices = placing.FillDeviceHost(in.Spec.HostDevices, host.ID)
	in.Spec.CPU.Model = cmp.Or(in.Spec.CPU.Model, host.CPUModel)
	first, err := chooseImageSources(ctx, q, plans, &in.Spec, host)
	if err != nil {
		return fleet.VMView{}, "", err
	}
	if err := macs.Prefix(c.opts.MACPrefix).Assign(ctx, q, a, fleet.VMView{VM: fleet.VM{Meta: fleet.Meta{ID: id, ProjectID: in.ProjectID}}}, in.Spec.NICs); err != nil {
		return fleet.VMView{}, "", err
	}
	spec, err := network.StoredSpec(ctx, q, in.ProjectID, in.Spec)
	if err != nil {
		return fleet.VMView{}, "", err
	}
	err = q.AddVM(ctx, db.AddVMParams{
		ID: id, ProjectID: in.ProjectID, HostID: host.ID, Name: in.Name, Labels: in.Labels, Description: in.Description, Spec: spec,
	})
	if err != nil {
		return fleet.VMView{}, "", vmNameTakenError(err, in.Name, project)
	}
	if in.ExpiryDays != nil {
		if err := flavors.SetExpiry(ctx, q, a, in.ProjectID, id, *in.ExpiryDays); err != nil {
			return fleet.VMView{}, "", err
		}
	}
	if boot != nil {
		vmWithID := fleet.VM{Meta: fleet.Meta{ID: id, Name: in.Name, ProjectID: in.ProjectID}, Spec: spec}
		boxed, err := renderFirstBoot(ctx, q, *boot, vmWithID, project, in.FirstBoot.Variables)
		if err != nil {
			return fleet.VMView{}, "", err
		}
		if err := seals.storeFirstBoot(ctx, q, a, vmWithID, boxed); err != nil {
			return fleet.VMView{}, "", err
		}
	}
	vm, err := store.GetVM(ctx, q, fleet.SystemActor, id)
	if err != nil {
		return vm, "", err
	}
	if err := placing.AllocateDevices(ctx, q, vm.VM, vm.HostID); err != nil {
		return vm, "", err
	}
	task, err := vmCreation{vm: vm, first: first, from: from, child: child}.queueJobs(ctx, q, a)
	if err != nil {
		return vm, "", err
	}
	return vm, task, store.Audit(ctx, q, a, "vm.create", fleet.SubjectVM(id), in.Name, fmt.Sprintf("in %s on %s%s%s", project, host.Name, from.auditDetail, overcommitAuditSuffix(in.Overcommit)))
}

// vmCreation is a new VM that is in the database, but not yet on its host.
type vmCreation struct {
	vm    fleet.VMView
	first preparationSteps // the steps that must run before the definition
	from  plannedSource
	child fleet.TaskID // the task's child for the creation; empty: the creation becomes a new task
}

// queueJobs queues the jobs that prepare the disks, define the VM and start it if requested. They all belong to the
// child's task; without a child, the start is a separate task. queueJobs returns the task of the definition.
func (n vmCreation) queueJobs(ctx context.Context, q *db.Queries, a fleet.Actor) (fleet.TaskID, error) {
	order := func(kind fleet.JobKind) (fleet.TaskID, error) {
		o := vmJobParams(n.vm, kind, fleet.JobArgs{})
		if n.child != "" {
			o.Child = (*string)(&n.child)
		}
		task, err := store.JoinOrQueueJob(ctx, q, a, o)
		if err != nil {
			return task, fmt.Errorf("queue %s: %w", kind, err)
		}
		return task, nil
	}
	task, err := order(fleet.VMApply)
	if err != nil {
		return "", err
	}
	if err := n.first.queuePreparationJobs(ctx, q, a, task); err != nil {
		return "", err
	}
	if err := n.from.queueDiskJobs(ctx, q, a, n.vm, task); err != nil {
		return "", err
	}
	if n.vm.Spec.Power != fleet.Running {
		return task, nil
	}
	if _, err := order(fleet.VMStart); err != nil || n.child == "" {
		return task, err
	}
	return task, q.NameStep(ctx, db.NameStepParams{Role: roleVM, TaskID: &n.child, Steps: []string{}})
}

// vmNameTakenError returns a Conflict with the VM's name and project if err is a unique violation of VM names;
// otherwise err.
func vmNameTakenError(err error, name, project string) error {
	return store.NameTakenError(err, "vm_name_taken", "A VM named %q exists in %s already. Choose another name.", name, project)
}

// chooseHost returns the host named in the input if it can run the VM, or else the host that placement chooses. others
// are further pools that are read and locked.
func chooseHost(ctx context.Context, q *db.Queries, a fleet.Actor, in CreateVM, plans []imagePlan, others ...fleet.PoolID) (placement.Host, error) {
	var checks fleet.Checks
	may := policy.May(a, policy.InfraChange, "")
	if err := checkMayOvercommit(a, in.Overcommit); err != nil {
		return placement.Host{}, err
	}
	hosts, err := in.candidates(in.HostID, append(poolsWithCopies(plans), others...)).Read(ctx, q, a)
	if err != nil {
		return placement.Host{}, err
	}
	if err := placing.AddPlacementRules(ctx, q, in.placementMeta(), in.Spec.Rules, hosts); err != nil {
		return placement.Host{}, err
	}
	for i := range hosts {
		hosts[i].Overcommit = in.Overcommit
		addImageSources(plans, in.Spec, &hosts[i])
	}
	if in.HostID != "" {
		if len(hosts) == 0 {
			checks.Add("hostId", "There is no such host.")
			return placement.Host{}, checks.Err()
		}
		if in.ClusterID != "" && in.ClusterID != hosts[0].Cluster.ID {
			checks.Add("clusterId", "%s", otherClusterText(a, hosts[0]))
		}
		faults := placement.Faults(in.Spec, hosts[0])
		for _, f := range faults {
			checks.Add(f.Field, "%s", placementFaultText(a, f))
		}
		if may && slices.ContainsFunc(faults, func(f placement.Fault) bool { return f.Overcommittable }) {
			checks.Add("overcommit", overcommitHint)
		}
		if err := checks.Err(); err != nil {
			return placement.Host{}, err
		}
		return hosts[0], checkAllocation(ctx, q, a, in.Spec, hosts[0], fleet.VMSpec{})
	}
	if in.ClusterID != "" && len(hosts) == 0 {
		checks.Add("clusterId", "There is no such cluster, or it has no hosts.")
		return placement.Host{}, checks.Err()
	}
	choice := placement.Place(in.Spec, hosts)
	if choice.Host != nil {
		return *choice.Host, checkAllocation(ctx, q, a, in.Spec, *choice.Host, fleet.VMSpec{})
	}
	why := choice.RefusalTextWithoutHosts
	if policy.May(a, policy.InfraSee, "") {
		why = choice.RefusalText
	}
	checks.Add("hostId", "%s", why(10))
	if i := slices.IndexFunc(choice.Refused, func(r placement.Refusal) bool { return r.Overcommittable }); may && i >= 0 {
		hint := hostOvercommitHint
		if strings.HasPrefix(choice.Refused[i].Field, "spec.disks") {
			hint = overcommitHint
		}
		checks.Add("overcommit", "%s", hint)
	}
	return placement.Host{}, checks.Err()
}

// candidates returns the selection of hosts for the new VM: the given host, or all hosts of the cluster.
func (in CreateVM) candidates(host fleet.HostID, pools []fleet.PoolID) placing.Candidates {
	c := placing.Candidates{Host: host, Spec: in.Spec, Pools: pools, NewVM: true}
	if host == "" {
		c.Cluster = in.ClusterID
	}
	return c
}

// otherClusterText is the refusal of a host that is not in the chosen cluster.
func otherClusterText(a fleet.Actor, h placement.Host) string {
	if store.SeesHosts(a) {
		return fmt.Sprintf("%s is in the cluster %s. Choose that cluster, or another host.", h.Name, h.Cluster.Name)
	}
	return "The VM's host is in another cluster. Leave the cluster out."
}

// overcommitHint is the hint for administrators who request more storage than a pool has.
const overcommitHint = "To proceed anyway, overcommit the pool."

// hostOvercommitHint is the hint for administrators who request more memory or CPUs than a host has.
const hostOvercommitHint = "To proceed anyway, overcommit the host."

// placementFaultText returns the fault's text for the actor. Actors without access to hosts get neither host names nor hosts'
// own error texts.
func placementFaultText(a fleet.Actor, f placement.Fault) string {
	if policy.May(a, policy.InfraSee, "") {
		return f.Message
	}
	return strings.ToUpper(f.Plain[:1]) + f.Plain[1:] + "."
}
