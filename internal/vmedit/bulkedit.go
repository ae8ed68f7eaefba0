package vmedit

import (
	"encoding/json"
	"maps"
	"slices"

	"quantix/internal/fleet"
)

// BulkEdit is one edit of many VMs. Fields that it does not name stay unchanged.
type BulkEdit struct {
	Labels map[string]*string `json:"labels,omitempty"` // new value; null removes the label
	// Fields: spec fields by name: "cpus", "display.video"; each as the field's JSON
	Fields map[string]json.RawMessage `json:"fields,omitempty"`
}

// BulkFields lists the fields that a bulk edit can set: single values that do not identify one VM.
func BulkFields() []fleet.VMField {
	return slices.DeleteFunc(slices.Clone(fleet.VMFields), func(f fleet.VMField) bool {
		return f.Name == "disks" || f.Name == "nics" || f.Name == "iso" || f.TakesEffect == fleet.WhenNever || len(f.Input.Rows) > 0 || f.Input.Kind == fleet.InputFile
	})
}

// Check returns an error if the edit is invalid, whichever VM it is applied to.
func (e BulkEdit) Check() error {
	var c fleet.Checks
	if len(e.Labels) == 0 && len(e.Fields) == 0 {
		c.Add("fields", "Choose a field or a label to change.")
	}
	set := map[string]string{}
	for k, v := range e.Labels {
		if set[k] = ""; v != nil {
			set[k] = *v
		}
	}
	fleet.CheckLabels(&c, "labels", set)
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		f, ok := bulkField(name)
		if !ok {
			c.Add("fields", "The field %q cannot be edited for several VMs at once.", fleet.StorableText(name, 80))
			continue
		}
		var s fleet.VMSpec
		if err := f.Decode(&s, e.Fields[name]); err != nil {
			c.Add("fields."+name, "This is not a valid value for %s.", f.Type)
		}
	}
	return c.Err()
}

func bulkField(name string) (fleet.VMField, bool) {
	all := BulkFields()
	if i := slices.IndexFunc(all, func(f fleet.VMField) bool { return f.Name == name }); i >= 0 {
		return all[i], true
	}
	return fleet.VMField{}, false
}

// ApplyTo returns the VM with the edit applied. The edit must have passed Check.
func (e BulkEdit) ApplyTo(vm fleet.VM) (fleet.VM, error) {
	labels := maps.Clone(vm.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for k, v := range e.Labels {
		if v == nil {
			delete(labels, k)
		} else {
			labels[k] = *v
		}
	}
	vm.Labels = labels
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		f, ok := bulkField(name)
		if !ok {
			return vm, fleet.Errorf(fleet.Invalid, "The field %q cannot be edited for several VMs at once.", fleet.StorableText(name, 80))
		}
		if err := f.Decode(&vm.Spec, e.Fields[name]); err != nil {
			return vm, fleet.Errorf(fleet.Invalid, "This is not a valid value for %s.", f.Type)
		}
	}
	return vm, nil
}

// RefusedVM is a VM that a bulk action skips.
type RefusedVM struct {
	VMID fleet.VMID `json:"vmId"`
	Name string     `json:"name"`
	Why  string     `json:"why"`
}
