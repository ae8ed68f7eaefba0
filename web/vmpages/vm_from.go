package vmpages

import (
	"fmt"
	"maps"
	"net/url"
	"slices"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/vmcopy"
	"quantix/internal/vmedit"
	"quantix/views"
	"quantix/views/kit"
	vmview "quantix/views/vm"
	"quantix/web/form"
)

// vmSourceFromForm returns the source of the new VM: a template, VM, snapshot or appliance. It is nil if the form has
// none of these.
func vmSourceFromForm(typed url.Values) *control.VMSource {
	from := control.VMSource{
		TemplateID: fleet.TemplateID(typed.Get("from.templateId")), VersionID: fleet.TemplateVersionID(typed.Get("from.versionId")), VMID: fleet.VMID(typed.Get("from.vmId")),
		SnapshotID: fleet.SnapshotID(typed.Get("from.snapshotId")),
	}
	if file := (control.ApplianceFile{
		PoolID: fleet.PoolID(typed.Get("from.appliance.poolId")), HostID: fleet.HostID(typed.Get("from.appliance.hostId")), Volume: typed.Get("from.appliance.volume"),
	}); file.Volume != "" {
		from.Appliance = &file
	}
	if from == (control.VMSource{}) {
		return nil
	}
	return &from
}

// readNewVMSource returns the source of a new VM for the form, and image options if the source is a template. If fresh
// is true, the query names the source, which prefills typed. Otherwise typed names the source.
func (s *Site) readNewVMSource(c echo.Context, a fleet.Actor, typed url.Values, fresh bool) (*vmview.NewVMSource, []kit.Option, error) {
	from := vmSourceFromForm(typed)
	if fresh {
		from = vmSourceFromForm(url.Values{
			"from.templateId": {c.QueryParam("template")}, "from.versionId": {c.QueryParam("version")}, "from.vmId": {c.QueryParam("clone")}, "from.snapshotId": {c.QueryParam("snapshot")},
			"from.appliance.poolId": {c.QueryParam("pool")}, "from.appliance.hostId": {c.QueryParam("host")}, "from.appliance.volume": {c.QueryParam("import")},
		})
	}
	switch {
	case from == nil:
		return nil, nil, nil
	case from.Appliance != nil:
		shown, err := s.newVMSourceFromAppliance(c, a, *from.Appliance, typed, fresh)
		return shown, nil, err
	case from.TemplateID != "":
		return s.newVMSourceFromTemplate(c, a, *from, typed, fresh)
	case from.VMID != "":
		shown, err := s.newVMSourceFromVM(c, a, *from, typed, fresh)
		return shown, nil, err
	}
	return nil, nil, fleet.Errorf(fleet.NotFound, "There is no such template.")
}

func (s *Site) newVMSourceFromTemplate(c echo.Context, a fleet.Actor, from control.VMSource, typed url.Values, fresh bool) (*vmview.NewVMSource, []kit.Option, error) {
	v, err := s.Control.GetTemplate(c.Request().Context(), a, from.TemplateID)
	if err != nil {
		return nil, nil, err
	}
	version := v.Version(from.VersionID)
	if version == nil {
		return nil, nil, fleet.Errorf(fleet.NotFound, "The template %s does not have this version, or all its versions are deprecated.", v.Name)
	}
	out := &vmview.NewVMSource{
		Title: "New VM from " + v.Name, Back: views.TemplatePath(v.ID),
		Note: fmt.Sprintf("The settings are those of version %d of the template. An overlay is a linked clone: it is created at once and stores only differences. A copy does not depend on the template.", version.Number),
		Sent: map[string]string{"from.templateId": string(v.ID), "from.versionId": string(version.ID)},
	}
	if why := version.WhyUnusable(); why != "" {
		out.Note = why
	}
	var images []kit.Option
	for i, d := range version.Disks {
		text := fmt.Sprintf("Disk %d of %s, version %d", i+1, v.Name, version.Number)
		if d.SizeBytes > 0 {
			text += " (" + kit.Bytes(d.SizeBytes) + ")"
		}
		images = append(images, kit.Option{Value: vmview.LibraryImageValue(d.ImageID, d.VersionID), Text: text})
	}
	if !fresh {
		return out, images, nil
	}
	if err := fillSpecFormValues(typed, control.SpecOfTemplateVersion(*version, false, "")); err != nil {
		return nil, nil, err
	}
	if typed.Get("projectId") == "" && v.ProjectID != "" {
		typed.Set("projectId", string(v.ProjectID))
	}
	for i, d := range version.Disks {
		at := fmt.Sprintf("spec.disks[%d]", i)
		typed.Set(at+".source", "overlay")
		typed.Set(at+".image", images[i].Value)
		typed.Set(at+".sizeBytes", form.GiBText(d.SizeBytes))
	}
	return out, images, nil
}

func (s *Site) newVMSourceFromVM(c echo.Context, a fleet.Actor, from control.VMSource, typed url.Values, fresh bool) (*vmview.NewVMSource, error) {
	vm, err := s.Control.GetVM(c.Request().Context(), a, from.VMID)
	if err != nil {
		return nil, err
	}
	out := &vmview.NewVMSource{
		Title: "Clone " + vm.Name, Back: views.VMPath(vm.ID), Sent: map[string]string{"from.vmId": string(vm.ID)}, Disks: []string{},
		Note: "A full copy on the host of " + vm.Name + ", with new MAC addresses. Firmware variables and TPM start empty. For linked clones, create a template first.",
	}
	if vmcopy.NeedsTemporarySnapshot(vm) {
		out.Note += " The disks are copied from a temporary snapshot, which is deleted afterwards, so " + vm.Name + " can run meanwhile. " +
			"If the guest agent does not answer, the copy is crash-consistent, as after a power failure."
	}
	disks, of := vm.Spec.Disks, ""
	if from.SnapshotID != "" {
		shot, err := s.snapshotToClone(c, a, vm, from.SnapshotID, out)
		if err != nil {
			return nil, err
		}
		disks, of = vm.DisksInSnapshot(shot), " of “"+shot.Name+"”"
	} else if ok, why := vmcopy.AllowsClone(vm); !ok {
		out.Note = why
	}
	spec := control.CloneSpec(vm, "", disks)
	for i, d := range spec.Disks {
		out.Disks = append(out.Disks, fmt.Sprintf("Copy of disk %d%s (%s)", i+1, of, kit.Bytes(d.SizeBytes)))
	}
	if !fresh {
		return out, nil
	}
	if err := fillSpecFormValues(typed, spec); err != nil {
		return nil, err
	}
	name, err := s.Control.CloneName(c.Request().Context(), a, vm.ID)
	if err != nil {
		return nil, err
	}
	typed.Set("name", name)
	typed.Del("start")
	typed.Set("projectId", string(vm.ProjectID))
	typed.Set("labels", kit.LabelLines(vm.Labels))
	typed.Set("description", vm.Description)
	for i := range spec.Disks {
		typed.Set(fmt.Sprintf("spec.disks[%d].source", i), "clone")
	}
	return out, nil
}

// snapshotToClone returns the snapshot whose disks are copied to the new VM. It sets the heading and the note of the
// form in out.
func (s *Site) snapshotToClone(c echo.Context, a fleet.Actor, vm fleet.VMView, id fleet.SnapshotID, out *vmview.NewVMSource) (fleet.Snapshot, error) {
	if vm.Status == nil || vm.Status.Snapshots.SnapshotByID(id) == nil {
		return fleet.Snapshot{}, fleet.Errorf(fleet.NotFound, "The VM has no such snapshot any more. Reload the page.")
	}
	shot := *vm.Status.Snapshots.SnapshotByID(id)
	busy, err := s.Control.UnfinishedSnapshotJobKinds(c.Request().Context(), a, vm.ID)
	if err != nil {
		return shot, err
	}
	out.Title = "New VM from “" + shot.Name + "” of " + vm.Name
	out.Back = views.TabPath(views.VMPath(vm.ID), "snapshots")
	out.Sent["from.snapshotId"] = string(shot.ID)
	out.Note = "Full copies of the disks in the snapshot, on the host of " + vm.Name + ", which can keep running. Its snapshots cannot change until the disks are copied. " +
		"The settings are the VM's current ones, with new MAC addresses. The snapshot's memory is not copied; firmware variables and TPM start empty."
	if ok, why := vm.AllowsVMFromSnapshot(shot, busy); !ok {
		out.Note = why
	}
	return shot, nil
}

// fillSpecFormValues sets the form's values of a new VM from a spec.
func fillSpecFormValues(typed url.Values, spec fleet.VMSpec) error {
	values, err := editFormValues(fleet.VMView{VM: fleet.VM{Spec: spec}})
	if err != nil {
		return err
	}
	for _, own := range []string{"name", "labels", "description", "generation"} {
		values.Del(own)
	}
	maps.Copy(typed, values)
	return nil
}

// bulkNamesFromForm returns the form's number of VMs and the first number of their names.
func bulkNamesFromForm(checks *fleet.Checks, typed url.Values) (out vmedit.BulkNames) {
	out.Count = form.ParseField(checks, "count", typed.Get("count"), form.ParseNumber)
	out.First = form.ParseField(checks, "first", typed.Get("first"), form.ParseNumber)
	return out
}

// prependOptions adds options to the beginning of the choices, but after an option without a value. An option that the
// choices already have moves there and gets the new text.
func prependOptions(in kit.SelectChoices, more []kit.Option) kit.SelectChoices {
	if len(more) == 0 {
		return in
	}
	at := 0
	if len(in.Options) > 0 && in.Options[0].Value == "" {
		at = 1
	}
	rest := slices.DeleteFunc(slices.Clone(in.Options), func(o kit.Option) bool {
		return slices.ContainsFunc(more, func(x kit.Option) bool { return x.Value == o.Value })
	})
	in.Options = slices.Insert(rest, at, more...)
	return in
}
