package vmpages

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"quantix/internal/control"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/vmedit"
	"quantix/internal/vmxml"
	vmview "quantix/views/vm"
	"quantix/web/form"
)

// prefillNewVM prefills the form of a new VM from the source, the preset or the pasted XML that in.prefillKey names.
// Errors in the pasted XML are at the field "xml".
func (s *Site) prefillNewVM(ctx context.Context, a fleet.Actor, in *vmForm) error {
	switch key, preset := strings.CutPrefix(in.prefillKey, "preset:"); {
	case preset:
		return prefillFromPreset(in.Values, key)
	case in.prefillKey == "read":
		return s.importPastedXML(ctx, a, in)
	case in.prefillKey == vmview.PrefillProjectDefaults:
		clearProposedDefaults(in.Values)
		in.Del(vmview.ExpiryField)
		return nil
	case in.prefillKey == vmview.PrefillFlavor: // the form fills in the size
		return nil
	}
	i := slices.IndexFunc(prefillSourceKeys(), func(k vmedit.VMSource) bool { return string(k) == in.prefillKey })
	if i < 0 {
		return form.UnreadableFormError()
	}
	prefillFromSource(in.Values, prefillSourceKeys()[i])
	return nil
}

// clearProposedDefaults clears the pools and networks that the form preselected by default, so that the form preselects
// the defaults of the newly chosen project.
func clearProposedDefaults(typed url.Values) {
	for name, was := range map[string]string{".poolId": typed.Get(vmview.ProposedPoolField), ".network": typed.Get(vmview.ProposedNetworkField)} {
		for field := range typed {
			if strings.HasPrefix(field, "spec.") && strings.HasSuffix(field, name) && typed.Get(field) == was {
				typed.Set(field, "")
			}
		}
	}
}

func prefillSourceKeys() []vmedit.VMSource {
	var out []vmedit.VMSource
	for _, s := range vmedit.VMSources {
		out = append(out, s.Key)
	}
	return out
}

// prefillFromSource sets the form's first disk and CD-ROM drive to suit the source.
func prefillFromSource(typed url.Values, source vmedit.VMSource) {
	typed.Set("source", string(source))
	disk := "spec.disks[0].source"
	switch has := typed.Has(disk); {
	case source == vmedit.SourceImage && has && typed.Get(disk) != "overlay":
		typed.Set(disk, "image")
		typed.Set("spec.disks[0].sizeBytes", "")
	case source == vmedit.SourceXML:
	case has && slices.Contains([]string{"image", "overlay"}, typed.Get(disk)):
		typed.Set(disk, "empty")
		if typed.Get("spec.disks[0].sizeBytes") == "" {
			typed.Set("spec.disks[0].sizeBytes", "20")
		}
	}
	if source != vmedit.SourceISO && source != vmedit.SourceXML {
		typed.Set("spec.iso", "")
	}
}

func prefillFromPreset(typed url.Values, key string) error {
	p, ok := vmedit.PresetByKey(key)
	if !ok {
		return form.UnreadableFormError()
	}
	spec, err := p.ApplyTo(fleet.VMSpec{})
	if err != nil {
		return err
	}
	whole, err := specEncoder.Encode(specForm{spec})
	if err != nil {
		return fmt.Errorf("encode the preset %s as a form: %w", key, err)
	}
	for _, l := range fleet.VMLists {
		row := func(name string, _ []string) bool { return strings.HasPrefix(name, "spec."+l.Name+"[") }
		maps.DeleteFunc(typed, row)
		for name, texts := range whole {
			if row(name, texts) {
				typed[name] = texts
			}
		}
	}
	for _, f := range fleet.VMFields {
		name := "spec." + f.Name
		if f.Input.Section != "" {
			typed.Del(name)
		}
		if texts, set := whole[name]; set && (f.Default == nil || !f.Default(spec)) && f.Name != "iso" {
			typed[name] = texts
		}
	}
	typed["spec.memoryMiB"] = memoryFormValues(spec.MemoryMiB)
	fillPresetRows(typed, "spec.disks", fleet.DiskFields, p.Disk)
	fillPresetRows(typed, "spec.nics", fleet.NICFields, p.NIC)
	prefillFromSource(typed, p.Source)
	if p.DiskGiB > 0 && typed.Get("spec.disks[0].source") == "empty" {
		typed.Set("spec.disks[0].sizeBytes", strconv.Itoa(p.DiskGiB))
	}
	typed.Set("preset", key)
	return nil
}

// fillPresetRows sets all rows of one list of devices to a preset's values, and the other fields of the rows to their
// defaults.
func fillPresetRows[S any](typed url.Values, list string, fields []fleet.Field[S], values map[string]string) {
	for i := range form.MaxRows {
		at := fmt.Sprintf("%s[%d].", list, i)
		has := false
		for name := range typed {
			has = has || strings.HasPrefix(name, at)
		}
		for _, f := range fields {
			if typed.Del(at + f.Name); has && values[f.Name] != "" {
				typed.Set(at+f.Name, strings.Trim(values[f.Name], `"`))
			}
		}
	}
}

// importPastedXML replaces the form's values with those of the pasted XML. It refuses settings that give access to the
// host, unless the user is an infrastructure administrator.
func (s *Site) importPastedXML(ctx context.Context, a fleet.Actor, in *vmForm) error {
	var checks fleet.Checks
	r, err := vmxml.ConvertDomain(in.Get("xml"))
	if err != nil {
		if refused, ok := errors.AsType[*fleet.Error](err); ok {
			checks.Add("xml", "%s", refused)
			return checks.Err()
		}
		return err
	}
	runs := policy.May(a, policy.InfraChange, "")
	vm := control.CreateVM{Name: r.Name, Description: r.Description, Spec: r.Spec}
	if err := s.addPastedDisks(ctx, a, &r, &vm.Spec, runs); err != nil {
		return err
	}
	for _, n := range r.Notes {
		in.notes = append(in.notes, vmview.ImportNote{Line: n.Line, At: n.At, Text: n.Text, Kind: string(n.Kind)})
	}
	if r.ReachesOutsideVM() && !runs {
		checks.Add("xml", "The lines below give the VM access to the host, which only infrastructure administrators may set. Remove these lines.")
		return checks.Err()
	}
	typed, err := newVMFormValues(vm)
	if err != nil {
		return err
	}
	maps.DeleteFunc(in.Values, func(name string, _ []string) bool { return strings.HasPrefix(name, "spec.") })
	for name, texts := range typed {
		if strings.HasPrefix(name, "spec.") || name == "description" || name == "name" && in.Get("name") == "" {
			in.Values[name] = texts
		}
	}
	in.xmlImported = true
	return nil
}

// addPastedDisks adds the disks and drives of the pasted definition r to spec, as far as Quantix supports them: copies
// of volumes that the user may use, and empty disks. It adds a note to r for each difference.
func (s *Site) addPastedDisks(ctx context.Context, a fleet.Actor, r *vmxml.Result, spec *fleet.VMSpec, runs bool) error {
	var pools []fleet.PoolView
	var media query.Media
	if runs {
		var err error
		if pools, err = query.ReadAllPages(ctx, a, fleet.Query{}, s.Control.ListPools); err != nil {
			return err
		}
		if media, err = s.Control.Media(ctx, a); err != nil {
			return err
		}
	}
	note := func(d vmxml.Disk, kind vmxml.NoteKind, text string) {
		r.Notes = append(r.Notes, vmxml.Note{Line: d.Line, At: "devices/disk", Kind: kind, Text: text})
	}
	nth := map[bool]int{} // number of drives so far, of floppies (true) and CD-ROMs (false)
	for _, d := range r.Disks {
		all := media.Images
		if d.CDROM {
			all = media.ISOs
		}
		found := findVolumeOfPastedDisk(pools, all, d)
		var from *fleet.Volref
		if found != nil {
			from = &fleet.Volref{PoolID: found.PoolID, Volume: found.Name}
		}
		disk := d.As
		switch {
		case d.CDROM || d.Floppy:
			nth[d.Floppy]++
			if !addPastedDrive(spec, d, nth[d.Floppy], from) {
				note(d, vmxml.Left, "A VM here has at most four CD-ROM drives and two floppy drives.")
			} else if from == nil && (d.Path != "" || d.Volume != "") {
				note(d, vmxml.Left, "The drive is empty: choose a medium.")
			}
		case found != nil:
			disk.Image = from
			if p := found.Published; p != nil && p.ImageID != "" {
				disk.Image, disk.ImageID, disk.VersionID = nil, p.ImageID, p.VersionID
			}
			spec.Disks = append(spec.Disks, disk)
			note(d, vmxml.Left, "The disk "+d.Target+" becomes a copy of the volume "+found.Name+", in the chosen pool.")
		case d.Path != "" && !runs:
			note(d, vmxml.Refused, "A file of the host.")
		default:
			disk.SizeBytes = 20 << 30
			spec.Disks = append(spec.Disks, disk)
			note(d, vmxml.Left, "The file of the disk "+d.Target+" is not an image in a pool, so its data is not imported: the new disk is empty.")
		}
	}
	slices.SortStableFunc(r.Notes, func(x, y vmxml.Note) int { return x.Line - y.Line })
	return nil
}

// addPastedDrive adds the nth CD-ROM or floppy drive, with its medium, to spec. It returns false if a VM cannot have
// that many drives.
func addPastedDrive(spec *fleet.VMSpec, d vmxml.Disk, nth int, medium *fleet.Volref) bool {
	slot := fmt.Sprintf("cdrom%d", nth)
	if d.Floppy {
		slot = fmt.Sprintf("floppy%d", nth)
	} else if nth == 1 { // every VM has the first CD-ROM drive
		spec.ISO, spec.Boot.CDROM = medium, d.As.BootOrder
		return true
	}
	if !slices.ContainsFunc(fleet.DriveSlots, func(o fleet.Option) bool { return o.Value == slot }) {
		return false
	}
	spec.Drives = append(spec.Drives, fleet.VMDrive{Slot: slot, Medium: medium, BootOrder: d.As.BootOrder})
	return true
}

// findVolumeOfPastedDisk returns the volume in all to which the disk's definition refers, by pool and name or by path;
// nil if there is none.
func findVolumeOfPastedDisk(pools []fleet.PoolView, all []query.VolumeOn, d vmxml.Disk) *query.VolumeOn {
	dir, file := path.Split(path.Clean(d.Path))
	for _, p := range pools {
		name := ""
		switch {
		case d.Volume != "" && d.Pool == p.Name:
			name = d.Volume
		case d.Path != "" && p.Spec.Path != "" && path.Clean(dir) == path.Clean(p.Spec.Path):
			name = file
		}
		if i := slices.IndexFunc(all, func(v query.VolumeOn) bool { return name != "" && v.PoolID == p.ID && v.Name == name }); i >= 0 {
			return &all[i]
		}
	}
	return nil
}

// newVMFormValues returns the form's values for a new VM. newVMFromForm is the inverse.
func newVMFormValues(vm control.CreateVM) (url.Values, error) {
	typed, err := editFormValues(fleet.VMView{VM: fleet.VM{Meta: fleet.Meta{Name: vm.Name, Labels: vm.Labels, Description: vm.Description}, Spec: vm.Spec}})
	if err != nil {
		return nil, err
	}
	for i, d := range vm.Spec.Disks {
		at := fmt.Sprintf("spec.disks[%d].", i)
		for name := range typed {
			if field, of := strings.CutPrefix(name, at); of && !slices.ContainsFunc(fleet.DiskFields, func(f fleet.Field[fleet.Disk]) bool { return f.Name == field }) {
				typed.Del(name)
			}
		}
		typed.Set(at+"poolId", string(d.PoolID))
		typed.Set(at+"sizeBytes", "")
		if d.SizeBytes > 0 {
			typed.Set(at+"sizeBytes", form.GiBText(d.SizeBytes))
		}
		switch {
		case d.Existing:
			typed.Set(at+"source", "lun")
			typed.Set(at+"lun", vmview.VolumeValue(d.PoolID, d.Volume))
		case d.Overlay:
			typed.Set(at+"source", "overlay")
		case d.Image != nil || d.ImageID != "":
			typed.Set(at+"source", "image")
		default:
			typed.Set(at+"source", "empty")
		}
		if d.ImageID != "" {
			typed.Set(at+"image", vmview.LibraryImageValue(d.ImageID, d.VersionID))
		} else if d.Image != nil {
			typed.Set(at+"image", vmview.VolumeValue(d.Image.PoolID, d.Image.Volume))
		}
	}
	for _, name := range []string{"generation", "was", "spec.power"} {
		typed.Del(name)
	}
	typed.Set("projectId", string(vm.ProjectID))
	typed.Set("hostId", string(vm.HostID))
	typed.Set("clusterId", string(vm.ClusterID))
	if vm.Start {
		typed.Set("start", "yes")
	}
	if vm.Overcommit {
		typed.Set("overcommit", "yes")
	}
	if vm.ExpiryDays != nil {
		typed.Set(vmview.ExpiryField, strconv.Itoa(*vm.ExpiryDays))
		if *vm.ExpiryDays == 0 {
			typed.Set(vmview.ExpiryField, "")
		}
	}
	return typed, nil
}
