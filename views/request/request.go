// Package request renders requests: their list, one request, the dialogs of a new request and of a decision.
package request

import (
	"maps"
	"net/url"
	"strconv"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/quota"
	"quantix/internal/request"
	"quantix/views"
	"quantix/views/kit"
)

const listPath = "/requests"

// ListPage is the list of requests.
type ListPage struct {
	kit.List
	Actor    fleet.Actor
	Requests []request.Request
	Project  fleet.ProjectID // empty: all projects
	Now      time.Time
}

// Columns are the columns of the list.
var Columns = kit.Columns{
	{Key: "state", Label: "State"},
	{Key: "kind", Label: "Kind", OnRequest: true},
	{Key: "project", Label: "Project"},
	{Key: "who", Label: "Requested by"},
	{Key: "reason", Label: "Reason"},
	{Key: "created", Label: "Requested", Sort: "created"},
	{Key: "decided", Label: "Decided by", OnRequest: true},
	{Key: "comment", Label: "Comment"},
	{Key: "id", Label: "UUID", OnRequest: true},
}

// CSV are the columns of the export.
var CSV = []kit.CSVColumn[request.Request]{
	{Name: "id", Value: func(v *request.Request) string { return string(v.ID) }},
	{Name: "request", Value: func(v *request.Request) string { return v.Name }},
	{Name: "kind", Value: func(v *request.Request) string { return string(v.Kind) }},
	{Name: "state", Value: func(v *request.Request) string { return string(v.State) }},
	{Name: "project", Value: func(v *request.Request) string { return v.ProjectName }},
	{Name: "requestedBy", Value: func(v *request.Request) string { return v.RequestedBy }},
	{Name: "reason", Value: func(v *request.Request) string { return v.Reason }},
	{Name: "created", Value: func(v *request.Request) string { return kit.CSVTime(&v.CreatedAt) }},
	{Name: "decided", Value: func(v *request.Request) string { return kit.CSVTime(v.DecidedAt) }},
	{Name: "decidedBy", Value: func(v *request.Request) string { return v.DecidedBy }},
	{Name: "comment", Value: func(v *request.Request) string { return v.Comment }},
}

func (p *ListPage) table() kit.Table[request.Request] {
	return kit.Table[request.Request]{
		List: &p.List, ID: "request-rows", Live: "requests", Every: "30s", Label: "Requests", Type: "request", Head: kit.Column{Label: "Request"},
		Items: p.Requests, EmptyContent: emptyListNote(p),
		Row: func(v *request.Request) kit.Row {
			return kit.Row{ID: "request-" + string(v.ID), Name: v.Name, Href: views.RequestPath(v.ID)}
		},
		RowCells: requestRow,
	}
}

// newRequestAction is the button that opens the dialog of a new request.
func newRequestAction(a fleet.Actor, project fleet.ProjectID) kit.ActionButton {
	b := kit.ActionButton{Icon: "plus", Word: "New request", Href: NewPath(project, nil), Dialog: true}
	if !policy.May(a, policy.VMChange, project) {
		b.Why = "You do not have permission to change VMs. Ask an administrator."
	}
	return b
}

// NewPath is the address of the dialog of a new request. values are the values of its fields.
func NewPath(project fleet.ProjectID, values url.Values) string {
	q := url.Values{}
	maps.Copy(q, values)
	if project != "" {
		q.Set("project", string(project))
	}
	if len(q) == 0 {
		return listPath + "/new"
	}
	return listPath + "/new?" + q.Encode()
}

// stateChip returns the class, icon and word of a state.
func stateChip(s request.State) (class, icon, word string) {
	switch s {
	case request.Approved:
		return "ok", "circle-check", "Approved"
	case request.Refused:
		return "bad", "circle-x", "Refused"
	case request.Withdrawn:
		return "muted", "ban", "Withdrawn"
	case request.Expired:
		return "muted", "clock", "Expired"
	}
	return "warn", "circle-dashed", "Open"
}

// Page shows one request.
type Page struct {
	Actor   fleet.Actor
	Link    kit.Link
	Request request.Request
	Usage   quota.ProjectUsage
	Now     time.Time
}

// MayDecide reports whether the actor may approve or refuse the request.
func (p Page) MayDecide() bool { return MayDecide(p.Actor, p.Request) }

// MayDecide reports whether the actor may approve or refuse a request.
func MayDecide(a fleet.Actor, r request.Request) bool {
	return policy.May(a, r.Kind.Info().Decide, r.ProjectID)
}

func (p Page) isOwn() bool { return p.Actor.UserID != "" && p.Request.UserID == p.Actor.UserID }

// actions are the actions on the request; none after the decision.
func (p Page) actions() (out []kit.ActionButton) {
	if p.Request.State != request.Open {
		return nil
	}
	if p.MayDecide() {
		out = append(out, kit.ActionButton{Icon: "check", Word: "Decide", Href: views.RequestPath(p.Request.ID, "decide"), Dialog: true})
	}
	if p.isOwn() {
		out = append(out, kit.ActionButton{Icon: "ban", Word: "Withdraw", Post: views.RequestPath(p.Request.ID, "withdraw"), Back: views.RequestPath(p.Request.ID), Confirm: "Withdraw this request?"})
	}
	return out
}

// resultPath is the page of what the approval made; empty: none.
func resultPath(r request.Result) string {
	switch {
	case r.VMID != "":
		return views.VMPath(r.VMID)
	case r.PoolID != "":
		return views.PoolPath(r.PoolID)
	case r.NetworkID != "":
		return views.NetworkPath(r.NetworkID)
	}
	return ""
}

// resultWord is the label of what the approval made.
func resultWord(r request.Result) string {
	switch {
	case r.VMID != "":
		return "VM"
	case r.PoolID != "":
		return "Published pool"
	}
	return "Published network"
}

// vmText describes the size of a requested VM.
func vmText(v *request.WantedVM) string {
	out := kit.CountText(v.Spec.CPUs, "vCPU") + ", " + fleet.FormatBytes(int64(v.Spec.MemoryMiB)<<20) + " of memory"
	if n := len(v.Spec.Disks); n > 0 {
		out += ", " + kit.CountText(n, "disk")
		if v.Uses.DiskBytes > 0 {
			out += " (" + fleet.FormatBytes(v.Uses.DiskBytes) + ")"
		}
	}
	return out + ", " + kit.CountText(len(v.Spec.NICs), "network adapter")
}

// limitLine compares a limit before and after an approval.
type limitLine struct {
	Label, Used, After, Limit, NewLimit string
	Exceeds                             bool // use after the approval exceeds the limit of now
}

// lines returns the limits that the request is about.
func (p Page) lines() (out []limitLine) {
	if p.Request.State != request.Open {
		return nil
	}
	raised := p.Request.Raised(p.Usage.Quota)
	var more quota.Usage
	if vm := p.Request.VM; vm != nil {
		more = vm.Uses
	}
	for _, l := range p.Usage.Lines(more) {
		one := limitLine{Label: l.Label, Used: l.Unit.Text(l.Used), After: l.Unit.Text(l.After), Exceeds: l.IsRefused()}
		if l.Pool != "" {
			one.Label = "Disk space in one pool"
		}
		if l.Hard == nil {
			continue
		}
		one.Limit, one.NewLimit = l.Unit.Text(*l.Hard), l.Unit.Text(*l.Hard)
		switch _, asked := p.Request.Limits[l.Key]; {
		case asked && l.Pool == "":
			if to := l.Resource.Limit(&raised).Hard; to != nil {
				one.NewLimit = l.Unit.Text(*to)
			}
		case p.Request.VM == nil || l.After == l.Used:
			continue
		case one.Exceeds:
			one.NewLimit = one.After
		}
		out = append(out, one)
	}
	return out
}

// Decision is the dialog that approves or refuses a request.
type Decision struct {
	Page
	Comment  string
	Choice   string            // chosen pool or network
	Choices  kit.SelectChoices // pools or networks
	Errors   kit.Errors
	RaisesOK bool // the actor may raise the quota
	BreaksOK bool // the actor may create VMs that the project's rules refuse
}

// whyNotApprove says why the actor cannot approve; empty: possible.
func (d Decision) whyNotApprove() string {
	r := d.Request
	switch {
	case r.State != request.Open:
		return request.WhyDecided(r.State, r.DecidedBy)
	case r.VM == nil:
		return ""
	case len(r.VM.Broken) > 0 && !d.BreaksOK:
		return "The project's rules refuse this VM. Only users who may change hosts and pools can approve it."
	}
	for _, l := range d.lines() {
		if l.Exceeds && !d.RaisesOK {
			return "The VM exceeds the project's quota. Only administrators, who may raise the quota, can approve it."
		}
	}
	return ""
}

// whyNotRefuse says why the actor cannot refuse; empty: possible.
func (d Decision) whyNotRefuse() string {
	if d.Request.State != request.Open {
		return request.WhyDecided(d.Request.State, d.Request.DecidedBy)
	}
	return ""
}

// approveHint says what an approval does.
func (d Decision) approveHint() string {
	switch d.Request.Kind {
	case request.Quota:
		return "Approve sets the new limits."
	case request.Pool:
		return "Approve publishes the pool to the project."
	case request.Network:
		return "Approve publishes the network to the project."
	}
	for _, l := range d.lines() {
		if l.Exceeds {
			return "Approve creates the VM for " + d.Request.RequestedBy + ", and raises the quota as far as needed."
		}
	}
	return "Approve creates the VM for " + d.Request.RequestedBy + "."
}

// NewForm is the dialog of a new request.
type NewForm struct {
	Project  fleet.Project
	Projects []fleet.Project // to choose from, if Project has no ID
	Rows     []LimitRow      // limits of the project
	Typed    url.Values
	Errors   kit.Errors
}

// LimitRow is the field of a wished limit.
type LimitRow struct{ Key, Label, Unit, Used, Limit string }

// NewLimitRows returns the rows of the project's limits.
func NewLimitRows(use quota.ProjectUsage) (out []LimitRow) {
	for _, l := range use.Lines(quota.Usage{}) {
		if l.Hard == nil || l.Pool != "" {
			continue
		}
		row := LimitRow{Key: l.Key, Label: l.Label, Used: l.Unit.Text(l.Used), Limit: l.Unit.Text(*l.Hard)}
		if l.Unit != quota.Count {
			row.Unit = "GiB"
		}
		out = append(out, row)
	}
	return out
}

// kindOptions are the kinds of the dialog. VMs are requested in the form of a new VM.
func (f NewForm) kindOptions() (out []kit.Option) {
	for _, k := range request.Kinds {
		if k.Kind != request.VM && (k.Kind != request.Quota || len(f.Rows) > 0) {
			out = append(out, kit.Option{Value: string(k.Kind), Text: k.Help})
		}
	}
	return out
}

func (f NewForm) kind() string { return f.Typed.Get("kind") }

// LimitText is a limit as the form shows it, in GiB or as a count.
func LimitText(u quota.Unit, n int64) string {
	switch u {
	case quota.Mebibytes:
		return strconv.FormatFloat(float64(n)/(1<<10), 'f', -1, 64)
	case quota.Bytes:
		return strconv.FormatFloat(float64(n)/(1<<30), 'f', -1, 64)
	}
	return strconv.FormatInt(n, 10)
}

// openText is "3 open requests".
func openText(n int, more bool) string {
	if more {
		return "more than " + strconv.Itoa(n) + " open requests"
	}
	return kit.CountText(n, "open request")
}
