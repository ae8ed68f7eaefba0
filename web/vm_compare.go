package web

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views/kit"
	"quantix/views/shell"
	vmview "quantix/views/vm"
)

// comparePage shows two VMs field by field. Two ids come from a list's selection; one from a VM's page.
func (s *Server) comparePage(c echo.Context, a fleet.Actor) error {
	ctx := c.Request().Context()
	ids := c.Request().URL.Query()["id"]
	with := fleet.VMID(c.QueryParam("with"))
	switch {
	case len(ids) == 2 && with == "":
		with = fleet.VMID(ids[1])
	case len(ids) == 0:
		return fleet.Errorf(fleet.Malformed, "Select two VMs to compare.")
	case len(ids) > 1:
		return fleet.Errorf(fleet.Malformed, "Two VMs are compared: select two, not %d.", len(ids))
	}
	p := vmview.ComparePage{All: c.QueryParam("all") != "", Infra: policy.May(a, policy.InfraSee, "")}
	var err error
	if p.Left, err = s.Control.GetVM(ctx, a, fleet.VMID(ids[0])); err != nil {
		return err
	}
	if with != "" {
		if p.Right, err = s.Control.GetVM(ctx, a, with); err != nil {
			return err
		}
		p.Rows = fleet.Compare(p.Left.VM, p.Right.VM)
	}
	q := pick{noun: "vms", now: []string{string(with)}, page: vmview.ComparePath(p.Left.ID, with), all: c.QueryParam("every") != ""}
	if p.VMs, err = s.choose(ctx, a, q); err != nil {
		return err
	}
	return s.show(c, a, shell.Frame{Title: "Compare " + p.Left.Name, Here: []string{"vm:" + string(p.Left.ID)}}, vmview.Compare(p))
}

// vmOptions are VMs that the person sees: those with the text in their names, and the present one.
func (s *Server) vmOptions(ctx context.Context, a fleet.Actor, c pick) ([]kit.Option, error) {
	q := fleet.Query{Limit: mostChoices + 1, Sort: "name"}
	if text := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`*":() `, r) {
			return -1
		}
		return r
	}, c.text); text != "" {
		q.Filter = "name:*" + text + "*"
	}
	page, err := s.Control.ListVMLines(ctx, a, q)
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
	for _, id := range c.now {
		if vm, err := s.Control.GetVM(ctx, a, fleet.VMID(id)); err == nil {
			add(vm)
		}
	}
	for _, vm := range page.Items {
		add(vm)
	}
	return out, nil
}

// wasOf is the VM as the form found it, as the form sends it back: what of the form a person has changed is told by it.
func wasOf(vm fleet.VM) string {
	text, err := json.Marshal(vmEdit{vm.Name, vm.Labels, vm.Description, vm.Spec})
	if err != nil {
		panic(err) // plain values
	}
	return string(text)
}

// merging are both changes of a VM that was changed while somebody edited it. merged: the form was shown both, and says whose counts.
func merging(typed url.Values, change control.UpdateVM, vm fleet.VMView) (merged fleet.VM, fields []fleet.Merged, err error) {
	var was vmEdit
	if err := json.Unmarshal([]byte(typed.Get("was")), &was); err != nil {
		return merged, nil, unreadable()
	}
	as := func(name string, labels map[string]string, description string, spec fleet.VMSpec) fleet.VM {
		out := vm.VM
		out.Name, out.Labels, out.Description, out.Spec = name, labels, description, spec
		return out
	}
	sameCards(change.Spec.NICs, was.Spec.NICs)
	chosen := map[string]fleet.Side{}
	for name, texts := range typed {
		if field, ok := strings.CutPrefix(name, "take."); ok && len(texts) > 0 {
			chosen[field] = fleet.Side(texts[0])
		}
	}
	merged, fields = fleet.Merge(as(was.Name, was.Labels, was.Description, was.Spec), as(*change.Name, change.Labels, *change.Description, *change.Spec), vm.VM, chosen)
	return merged, fields, nil
}

// sameCards makes those cards whole that the form leaves as they were: it speaks of their networks and addresses alone.
func sameCards(nics, was []fleet.NIC) {
	for i, n := range nics {
		for _, o := range was {
			switch {
			case !strings.EqualFold(n.MAC, o.MAC):
			case n.Network == o.Network && n.Bridge == o.Bridge && n.PortGroup == o.PortGroup:
				nics[i] = o
			default:
				nics[i].SecurityGroups, nics[i].AntiSpoofing = o.SecurityGroups, o.AntiSpoofing
			}
		}
	}
}

// mergeOf is the page of both changes; nil: nobody has changed the VM meanwhile.
func (s *Server) mergeOf(ctx context.Context, a fleet.Actor, typed url.Values, vm fleet.VMView) (*vmview.MergePage, error) {
	if typed.Get("was") == "" || typed.Get("merged") == "" && typed.Get("generation") == strconv.FormatInt(vm.Generation, 10) {
		return nil, nil
	}
	change, err := editOf(typed, vm)
	if err != nil {
		return nil, nil //nolint:nilerr // the form is shown with what is wrong in it
	}
	out := &vmview.MergePage{Generation: vm.Generation}
	if _, out.Fields, err = merging(typed, change, vm); err != nil || len(out.Fields) == 0 {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(typed)) {
		if strings.HasPrefix(name, "take.") || name == "generation" || name == "merged" {
			continue
		}
		for _, text := range typed[name] {
			out.Sent = append(out.Sent, kit.Sent{Name: name, Value: text})
		}
	}
	history, err := s.Control.VMEvents(ctx, a, vm.ID)
	if err != nil {
		return nil, err
	}
	for _, e := range history.Audit {
		if e.Action != "vm.plan" {
			out.By = e.Actor
			break
		}
	}
	return out, nil
}
