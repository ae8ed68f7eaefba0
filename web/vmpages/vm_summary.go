package vmpages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"
	"go.yaml.in/yaml/v3"

	"quantix/internal/control"
	"quantix/internal/flavor"
	"quantix/internal/fleet"
	"quantix/internal/quota"
	"quantix/views/kit"
	vmview "quantix/views/vm"
	"quantix/web/api"
	"quantix/web/form"
)

// ShowNewVMSummary renders a summary of the VM that the form would create, with its host. The page requests the summary
// while the user types.
func (s *Site) ShowNewVMSummary(c echo.Context, a fleet.Actor, in vmForm) (form.Response, error) {
	out := vmview.NewVMSummary{}
	want, _, err := newVMFromForm(in.Values)
	rules, rulesErr := s.rulesOfProject(c.Request().Context(), a, want.ProjectID)
	if rulesErr != nil {
		return nil, rulesErr
	}
	out.Facts = newVMSummaryFacts(sizedByFlavor(want, rules))
	out.Approval = rules.NeedsApproval()
	var quotaErr error
	if out.Quota, quotaErr = s.quotaAfter(c, a, sizedByFlavor(want, rules)); quotaErr != nil && fleet.CodeOf(quotaErr) != fleet.NotFound {
		return nil, quotaErr
	}
	if err == nil {
		ask := want
		if ask.Name == "" {
			ask.Name = rules.ExampleName() // most users type the name last
		}
		var p control.Preview
		if p, err = s.Control.PreviewVM(c.Request().Context(), a, ask); err == nil {
			out.Placed, out.Host, out.More, out.Why = p.Placed, p.Host, p.More, p.Why
			if want.From != nil { // control takes the disk sizes from the source
				shown := sizedByFlavor(want, rules)
				shown.Spec.Disks = p.Spec.Disks
				out.Facts = newVMSummaryFacts(shown)
			}
			if model := p.Spec.CPU.Model; want.Spec.CPU.Model == "" && model != "" {
				out.Facts = append(out.Facts, vmview.SummaryFact{Word: "CPU model", Text: model + " (cluster default)"})
			}
			ask.Spec = p.Spec // with the size of the flavor, and the source's disks
			if out.Quota, err = s.quotaAfter(c, a, ask); err != nil {
				return nil, err
			}
			for _, h := range p.Hosts {
				out.Others = append(out.Others, vmview.UnchosenHost{Name: h.Name, Why: h.Why, Suitable: h.Could})
			}
			if out.API, out.YAML, err = newVMCurlAndYAML(c, want); err != nil {
				return nil, err
			}
		}
	}
	if refused, ok := errors.AsType[*fleet.Error](err); ok && err != nil {
		for _, f := range refused.Fields {
			if !slices.Contains(out.Wrong, f.Message) {
				out.Wrong = append(out.Wrong, f.Message)
			}
		}
		if len(out.Wrong) == 0 {
			out.Wrong = []string{refused.Error()}
		}
		err = nil
	}
	if err != nil {
		return nil, err
	}
	f := vmview.Form{Typed: in.Values}
	if err := s.fillClusters(c.Request().Context(), a, &f); err != nil {
		return nil, err
	}
	if in.Get(vmview.FirstBootKindField) == vmview.FirstBootBySpec {
		if f.Specs, err = s.Control.ListCustomizations(c.Request().Context(), a); err != nil {
			return nil, err
		}
	}
	return func(c echo.Context) error {
		return s.WritePage(c, http.StatusOK, vmview.SummaryRefresh(out, f, in.sentValues))
	}, nil
}

// quotaAfter returns the limits of the project that a new VM counts against.
func (s *Site) quotaAfter(c echo.Context, a fleet.Actor, vm control.CreateVM) (out []quota.Line, err error) {
	if vm.ProjectID == "" {
		return nil, nil
	}
	use, err := s.Control.ProjectUsage(c.Request().Context(), a, vm.ProjectID)
	if err != nil {
		return nil, err
	}
	if vm.Start {
		vm.Spec.Power = fleet.Running
	}
	for _, l := range use.Lines(quota.OfVM(vm.Spec)) {
		if l.After > l.Used && (l.Hard != nil || l.Soft != nil) {
			out = append(out, l)
		}
	}
	return out, nil
}

// rulesOfProject returns the rules of a new VM's project; none if the user may not see the project, which control reports
// when the VM is created.
func (s *Site) rulesOfProject(ctx context.Context, a fleet.Actor, project fleet.ProjectID) (flavor.Rules, error) {
	if project == "" {
		return flavor.Rules{}, nil
	}
	r, err := s.Control.VMRules(ctx, a, project)
	if fleet.CodeOf(err) == fleet.NotFound {
		err = nil
	}
	return r, err
}

// sizedByFlavor returns the new VM with the size of its flavor.
func sizedByFlavor(vm control.CreateVM, r flavor.Rules) control.CreateVM {
	for _, f := range r.Flavors {
		if f.ID == vm.FlavorID {
			vm.Spec = f.ApplyTo(vm.Spec, vm.From != nil && vm.From.TemplateID == "")
		}
	}
	return vm
}

// newVMSummaryFacts returns the rows of the summary of a new VM.
func newVMSummaryFacts(vm control.CreateVM) (out []vmview.SummaryFact) {
	add := func(word, text string) {
		if text != "" {
			out = append(out, vmview.SummaryFact{Word: word, Text: text})
		}
	}
	add("Name", vm.Name)
	if vm.Spec.CPUs > 0 { // else no size is chosen yet
		add("CPU", kit.CountText(vm.Spec.CPUs, "vCPU"))
		add("Memory", kit.MiB(vm.Spec.MemoryMiB))
	}
	add("Firmware", strings.ToUpper(string(vm.Spec.Firmware)))
	for i, d := range vm.Spec.Disks {
		text := kit.Bytes(d.SizeBytes)
		switch {
		case vm.From != nil && vm.From.TemplateID == "":
			text = "as large as its source"
		case d.Existing:
			text = "an existing volume"
		case d.SizeBytes == 0 && (d.Image != nil || d.ImageID != ""):
			text = "as large as its image"
		}
		switch {
		case d.Overlay:
			text += ", an overlay"
		case d.Image != nil || d.ImageID != "":
			text += ", a copy"
		}
		add("Disk "+strconv.Itoa(i+1), text)
	}
	for i, n := range vm.Spec.NICs {
		_, name := n.NetworkKindAndName()
		add("Network "+strconv.Itoa(i+1), name)
	}
	for _, f := range fleet.OptionalFields() {
		if !f.Default(vm.Spec) {
			add(f.Input.Label, f.Words(vm.Spec))
		}
	}
	if first := vm.FirstBoot; first != nil && (first.Kind != "" || first.CustomizationID != "") {
		text := first.Kind.Text()
		if first.CustomizationID != "" {
			text = "by a customization spec"
		}
		words := []string{text}
		if first.CloudInit != nil {
			for _, u := range first.CloudInit.Users {
				if u.Name == "" {
					words = append(words, vmview.DefaultUserLabel)
				} else {
					words = append(words, "user "+u.Name)
				}
			}
		}
		add("First boot", strings.Join(words, ", "))
	}
	if vm.Start {
		add("Power on after creation", "yes")
	}
	return out
}

// newVMCurlAndYAML returns the API request that creates the VM, as a curl command and as a YAML document.
func newVMCurlAndYAML(c echo.Context, vm control.CreateVM) (call, object string, err error) {
	text, err := json.Marshal(vm)
	if err != nil {
		return "", "", err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return "", "", err
	}
	body := doc.Content[0]
	removeEmptyValues(body)
	var plain any
	if err := body.Decode(&plain); err != nil {
		return "", "", err
	}
	var pretty bytes.Buffer
	e := json.NewEncoder(&pretty)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(plain); err != nil {
		return "", "", err
	}
	word := func(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }
	body.Content = append([]*yaml.Node{word("apiVersion"), word(api.VMDocumentVersion), word("kind"), word(api.VMDocumentKind)}, body.Content...)
	object, err = yamlText(body)
	// An apostrophe would end the quoted string of the shell command.
	quoted := strings.ReplaceAll(strings.TrimSpace(pretty.String()), "'", `'\''`)
	return fmt.Sprintf("curl %s://%s%s/vms \\\n  -H \"Authorization: Bearer $QUANTIX_TOKEN\" \\\n  -H 'Content-Type: application/json' \\\n  -d '%s'", c.Scheme(), c.Request().Host, api.Base, quoted), object, err
}

func yamlText(n *yaml.Node) (string, error) {
	var b strings.Builder
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	err := e.Encode(n)
	return b.String(), errors.Join(err, e.Close())
}

// removeEmptyValues removes empty values from n and sets the remaining values to YAML's block style.
func removeEmptyValues(n *yaml.Node) {
	n.Style = 0
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); {
		key, v := n.Content[i], n.Content[i+1]
		removeEmptyValues(v)
		key.Style = 0
		empty := v.Kind == yaml.ScalarNode && (v.Value == "" || v.Tag == "!!null" || v.Tag == "!!int" && v.Value == "0") || v.Kind != yaml.ScalarNode && len(v.Content) == 0
		if empty {
			n.Content = slices.Delete(n.Content, i, i+2)
			continue
		}
		i += 2
	}
	for _, in := range n.Content {
		if n.Kind == yaml.SequenceNode {
			removeEmptyValues(in)
		}
	}
}
