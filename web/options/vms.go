package options

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"quantix/internal/fleet"
	"quantix/internal/template"
	"quantix/views"
	"quantix/views/kit"
	vmview "quantix/views/vm"
)

// TemplateVersion returns the template version of a select's value (see views.TemplateVersionValue).
func (r *Reader) TemplateVersion(ctx context.Context, a fleet.Actor, value string) (template.View, *template.Version, error) {
	id, version, _ := strings.Cut(value, "/")
	t, err := r.Control.GetTemplate(ctx, a, fleet.TemplateID(id))
	if err != nil {
		return t, nil, err
	}
	v := t.Version(fleet.TemplateVersionID(version))
	if v == nil {
		return t, nil, fleet.Errorf(fleet.NotFound, "The template %s has no such version.", t.Name)
	}
	return t, v, nil
}

// templateVersionOptions lists the template versions that the user may see: first the version that VM c.ParentID was created
// from, then the newest version of each template.
func (r *Reader) templateVersionOptions(ctx context.Context, a fleet.Actor, c Query) ([]kit.Option, error) {
	q := fleet.Query{Limit: maxOptions + 1, Sort: "name"}
	if text := withoutFilterCharacters(c.Text); text != "" {
		q.Filter = "name:*" + text + "*"
	}
	page, err := r.Control.ListTemplates(ctx, a, q)
	if err != nil {
		return nil, err
	}
	var first, out []kit.Option
	for _, t := range page.Items {
		for _, v := range t.Versions {
			o := kit.Option{Value: views.TemplateVersionValue(t.ID, v.ID), Text: t.Name + " · version " + strconv.Itoa(v.Number)}
			if slices.ContainsFunc(v.VMs, func(vm template.VM) bool { return string(vm.ID) == c.ParentID }) {
				o.Text += " · source of this VM"
				first = append(first, o)
				continue
			}
			out = append(out, o)
		}
	}
	out = append(first, out...)
	for _, value := range c.Chosen {
		if value == "" || slices.ContainsFunc(out, func(o kit.Option) bool { return o.Value == value }) {
			continue
		}
		if t, v, err := r.TemplateVersion(ctx, a, value); err == nil {
			out = append(out, kit.Option{Value: value, Text: t.Name + " · version " + strconv.Itoa(v.Number)})
		}
	}
	return out, nil
}

// withoutFilterCharacters returns the search text without the characters that are special in filters.
func withoutFilterCharacters(text string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(`*":() `, r) {
			return -1
		}
		return r
	}, text)
}

// vmOptions lists the VMs that the user may see and whose name contains the search text, and the chosen VM.
func (r *Reader) vmOptions(ctx context.Context, a fleet.Actor, c Query) ([]kit.Option, error) {
	q := fleet.Query{Limit: maxOptions + 1, Sort: "name"}
	if text := withoutFilterCharacters(c.Text); text != "" {
		q.Filter = "name:*" + text + "*"
	}
	page, err := r.Control.ListVMsBriefly(ctx, a, q)
	if err != nil {
		return nil, err
	}
	var out []kit.Option
	add := func(vm fleet.VMView) {
		value := string(vm.ID)
		if !slices.ContainsFunc(out, func(o kit.Option) bool { return o.Value == value }) {
			out = append(out, kit.Option{Value: value, Text: vm.Name + " · " + vm.ProjectName})
		}
	}
	for _, id := range c.Chosen {
		if vm, err := r.Control.GetVM(ctx, a, fleet.VMID(id)); err == nil {
			add(vm)
		}
	}
	for _, vm := range page.Items {
		add(vm)
	}
	return out, nil
}

// migrationTargetOptions lists the hosts and pools that VM c.ParentID can migrate to.
func (r *Reader) migrationTargetOptions(ctx context.Context, a fleet.Actor, c Query) (out []kit.Option, err error) {
	if c.Targets == nil {
		c.Targets, err = r.Control.MigrationTargets(ctx, a, fleet.VMID(c.ParentID))
	}
	return vmview.MigrationTargetOptions(c.Targets), err
}
