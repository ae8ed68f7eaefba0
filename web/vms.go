package web

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
)

// vmTabs are the filters behind the list's tabs.
var vmTabs = map[string]string{
	"all": "", "found": "",
	"attention": "phase:failed,crashed,missing,unknown",
	"restart":   "phase:needsRestart",
}

// listOf reads what every list's address may carry.
func listOf(c echo.Context) (views.Link, fleet.Query) {
	link := views.Link{Path: c.Path(), Query: c.QueryParams()}.Without("tree", "dock", "group")
	q := fleet.Query{
		Filter: c.QueryParam("filter"), Sort: c.QueryParam("sort"), After: c.QueryParam("after"),
		Project: fleet.ProjectID(c.QueryParam("project")),
	}
	q.Limit, _ = strconv.Atoi(c.QueryParam("limit")) // control bounds it; a word counts as none
	return link, q
}

// wrongFilter takes a refusal of the filter out of err, so that the list can explain it.
func wrongFilter(err error) (string, error) {
	var refused *fleet.Error
	if errors.As(err, &refused) && refused.Code == fleet.Invalid &&
		slices.ContainsFunc(refused.Fields, func(f fleet.FieldError) bool { return f.Field == "filter" }) {
		return refused.Error(), nil
	}
	return "", err
}

func vmQuery(c echo.Context) (tab string, link views.Link, q fleet.Query) {
	link, q = listOf(c)
	if tab = c.QueryParam("tab"); tab == "" {
		tab = "all"
	}
	q.Filter = strings.TrimSpace(vmTabs[tab] + " " + q.Filter)
	return tab, link, q
}

func (s *Server) listVMs(c echo.Context, a fleet.Actor) error {
	ctx := c.Request().Context()
	tab, link, q := vmQuery(c)
	if _, ok := vmTabs[tab]; !ok {
		return fleet.Errorf(fleet.NotFound, "The list of VMs has no view %q.", tab)
	}
	p := views.VMsPage{
		Link: link, Tab: tab, Sort: q.Sort, After: q.After, Now: time.Now(), Columns: columnsOf(c),
		Create: policy.May(a, policy.VMChange, ""), Use: policy.May(a, policy.VMUse, ""),
		Share: s.PublicURL + link.String(),
		Any:   tab != "all" || q.Filter != "" || q.Project != "",
		Filter: views.Filter{
			Link: link, Noun: "vms", Label: "Filter VMs", Value: c.QueryParam("filter"),
			Placeholder: "phase:running host:h1 name:web* label:env=prod",
		},
	}
	if p.Sort == "" {
		p.Sort = "name"
	}
	var err error
	switch {
	case target(c) == "vms-head": // counts only
	case tab == "found":
		p.Filter.Noun, p.Filter.Placeholder = "found", "name:web* host:h1 phase:running"
		var found fleet.Page[fleet.FoundVM]
		found, err = s.Control.ListFoundVMs(ctx, a, q)
		p.Found, p.Next = found.Items, found.Next
	default:
		var vms fleet.Page[fleet.VMView]
		vms, err = s.Control.ListVMs(ctx, a, q)
		p.VMs, p.Next = vms.Items, vms.Next
	}
	if p.Filter.Error, err = wrongFilter(err); err != nil {
		return err
	}
	if id := target(c); (id == "" || id == "vms-head") && policy.AllProjects(a) {
		if p.Total, p.FoundN, err = s.Control.VMTotals(ctx, a); err != nil {
			return err
		}
	}
	status := http.StatusOK
	if p.Filter.Error != "" {
		status = http.StatusUnprocessableEntity
	}
	return s.showAs(c, status, a, views.Frame{Title: "Virtual machines", Project: q.Project}, views.VMs(p))
}

// columnsOf reads the choice of columns, which is part of the address.
func columnsOf(c echo.Context) []string {
	if text := c.QueryParam("columns"); text != "" {
		return strings.Split(text, ",")
	}
	return views.VMColumnsFirst
}

// exportPage is how many rows the export reads at once; each read has the time of a page.
const exportPage = 500

// exportVMs writes the list, all pages of it, as CSV while it is read.
func (s *Server) exportVMs(c echo.Context, a fleet.Actor) error {
	tab, _, q := vmQuery(c)
	q.Limit, q.After = exportPage, ""
	if tab == "found" {
		return export(c, a, "discovered-vms.csv", q, s.Control.ListFoundVMs, foundHead, foundRow)
	}
	return export(c, a, "vms.csv", q, s.Control.ListVMs, vmHead, vmRow)
}

var vmHead = []string{"id", "name", "phase", "host", "project", "cpus", "memoryMiB", "addresses", "labels", "description", "created"}

func vmRow(vm fleet.VMView) []string {
	var addresses []string
	if vm.Status != nil {
		for _, n := range vm.Status.NICs {
			addresses = append(addresses, n.Addresses...)
		}
	}
	return []string{
		string(vm.ID), vm.Name, string(vm.Phase), vm.HostName, vm.ProjectName, strconv.Itoa(vm.Spec.CPUs), strconv.Itoa(vm.Spec.MemoryMiB),
		strings.Join(addresses, " "), strings.ReplaceAll(views.LabelText(vm.Labels), "\n", " "), vm.Description, vm.CreatedAt.UTC().Format(time.RFC3339),
	}
}

var foundHead = []string{"id", "name", "phase", "host", "cpus", "memoryMiB"}

func foundRow(vm fleet.FoundVM) []string {
	return []string{string(vm.ID), vm.Name, string(vm.Phase), vm.HostName, strconv.Itoa(vm.Status.CPUs), strconv.Itoa(vm.Status.MemoryMiB)}
}

type bulkForm struct {
	Action string   `form:"action"`
	IDs    []string `form:"id"`
	Back   string   `form:"back"`
}

// actOnVMs asks one action of many VMs and shows a result for each.
func (s *Server) actOnVMs(c echo.Context, a fleet.Actor) error {
	in, err := decode[bulkForm](c)
	if err != nil {
		return err
	}
	p := views.BulkPage{Action: fleet.Action(in.Action), Back: localPath(in.Back)}
	if p.Action.Job() == "" || p.Action == fleet.ActDelete || p.Action == fleet.ActEdit {
		return fleet.Errorf(fleet.Malformed, "%q is nothing that can be asked of many VMs at once.", in.Action)
	}
	if len(in.IDs) == 0 {
		return fleet.Errorf(fleet.Malformed, "Select VMs first.")
	}
	for _, id := range in.IDs {
		r, err := s.actOnOne(c, a, fleet.VMID(id), p.Action)
		if err != nil {
			return err
		}
		p.Results = append(p.Results, r)
	}
	return s.show(c, a, views.Frame{Title: p.Action.Word()}, views.Bulk(p))
}

// actOnOne gives the refusal of one VM as its result; only an error that concerns all of them ends the whole.
func (s *Server) actOnOne(c echo.Context, a fleet.Actor, id fleet.VMID, act fleet.Action) (views.BulkResult, error) {
	r := views.BulkResult{ID: id, Name: string(id)}
	job, err := s.Control.ActVM(c.Request().Context(), a, id, act)
	switch fleet.CodeOf(err) {
	case "", fleet.Unavailable, fleet.Unauthorized:
		r.Task, r.Name = job.ID, job.SubjectName
		return r, err
	}
	r.Error = s.refuse(c, err).text()
	if vm, err := s.Control.GetVM(c.Request().Context(), a, id); err == nil {
		r.Name = vm.Name
	}
	return r, nil
}
