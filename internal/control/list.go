package control

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Bounds of a page.
const (
	defaultPage = 100
	largestPage = 500

	maxCursorText = 4096 // bytes of one value in a cursor

	usualPage = defaultPage + 1 // rows that are read for a page: one more tells whether there is another
)

// heard is true where the agent of host_sessions s is still believed, and fresh where also what it says about VMs, pools and
// networks is: an agent that does not reach its hypervisor knows nothing about them. Both are fleet.Fresh in SQL.
var (
	heard = within("s.seen_at")
	fresh = within("s.looked_at")
)

func within(column string) string {
	return fmt.Sprintf("COALESCE(%s >= now() - interval '%d seconds', false)", column, int(fleet.Freshness/time.Second))
}

// statement is SQL that grows; what people typed only ever becomes a bound argument of it.
type statement struct {
	where  []string
	args   []any
	varies bool // how it is best done hangs on the values of its arguments

	searches bool // it looks for parts of text, which may mean to look at everything
}

// arg binds v and returns its placeholder.
func (s *statement) arg(v any) string {
	s.varies = true
	return s.key(v)
}

// key binds a value on which the plan does not hang, such as an id or a place in the list's order.
func (s *statement) key(v any) string {
	s.args = append(s.args, v)
	return "$" + strconv.Itoa(len(s.args))
}

// pattern binds what LIKE compares with.
func (s *statement) pattern(p fleet.Pattern) string {
	s.searches = true
	return s.arg(p.Like())
}

// and adds a condition. Its own parentheses keep an OR within it from widening what the others allow.
func (s *statement) and(condition string) { s.where = append(s.where, "("+condition+")") }

// not adds a condition or its contrary, where "cannot tell" counts as "no".
func (s *statement) not(contrary bool, condition string) {
	if contrary {
		condition = "NOT COALESCE((" + condition + "), false)"
	}
	s.and(condition)
}

// conditions is the WHERE clause.
func (s *statement) conditions() string {
	if len(s.where) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(s.where, " AND ")
}

// text is a condition on a text column: any of the alternatives.
func (s *statement) text(column string, any []fleet.Match) string {
	var exact, parts []string
	for _, m := range any {
		if t, ok := m.Exact(); ok {
			exact = append(exact, t)
		} else {
			parts = append(parts, column+" LIKE "+s.pattern(m.Pattern))
		}
	}
	switch len(exact) {
	case 0:
	case 1:
		parts = append(parts, column+" = "+s.arg(exact[0]))
	default:
		parts = append(parts, column+" = ANY ("+s.arg(exact)+"::text[])")
	}
	return "(" + strings.Join(parts, " OR ") + ")"
}

// labels is a condition on a jsonb column of labels.
func (s *statement) labels(column string, any []fleet.Match) string {
	parts := make([]string, len(any))
	for i, m := range any {
		value, exact := m.Exact()
		switch {
		case exact:
			parts[i] = column + " @> " + s.arg(map[string]string{m.Label: value}) + "::jsonb"
		case m.Like() == "%":
			parts[i] = column + " ? " + s.arg(m.Label)
		default:
			key := s.arg(m.Label)
			parts[i] = "(" + column + " ? " + key + " AND " + column + "->>" + key + " LIKE " + s.pattern(m.Pattern) + ")"
		}
	}
	return "(" + strings.Join(parts, " OR ") + ")"
}

// oneOf is column = the id, or any of several.
func (s *statement) oneOf(column string, values []string) string {
	if len(values) == 1 {
		return column + " = " + s.key(values[0])
	}
	return column + " = ANY (" + s.arg(values) + "::text[])"
}

// visible keeps to the projects that the actor sees, cut to one where it is not empty.
func (s *statement) visible(a fleet.Actor, column string, only fleet.ProjectID) {
	if only != "" {
		s.and(column + " = " + s.key(string(only)))
	}
	if !policy.AllProjects(a) && (only == "" || !slices.Contains(projectsOf(a), string(only))) {
		s.and(s.oneOf(column, projectsOf(a)))
	}
}

// projectsOf lists the projects in which the actor sees VMs, sorted.
func projectsOf(a fleet.Actor) []string { return projectsWith(a, policy.VMSee) }

// projectsWith lists the actor's projects in which it has the right, sorted.
func projectsWith(a fleet.Actor, r policy.Right) []string {
	ids := []string{}
	for id := range a.Projects {
		if policy.May(a, r, id) {
			ids = append(ids, string(id))
		}
	}
	slices.Sort(ids)
	return ids
}

// column is one part of a list's order. Known tells whether a cursor's value is one that the portal writes for a value of the
// column: what only looks like one would be an error in SQL.
type column struct {
	sql   string
	known func(string) bool
}

func textColumn(sql string) column {
	return column{sql, func(v string) bool { return len(v) <= maxCursorText && !strings.ContainsRune(v, 0) }}
}

func int32Column(sql string) column { return column{sql, wholeNumber(32)} }

func int64Column(sql string) column { return column{sql, wholeNumber(64)} }

func wholeNumber(bits int) func(string) bool {
	return func(v string) bool {
		n, err := strconv.ParseInt(v, 10, bits)
		return err == nil && strconv.FormatInt(n, 10) == v
	}
}

func timeColumn(sql string) column {
	return column{sql, func(v string) bool {
		at, err := time.Parse(time.RFC3339Nano, v)
		return err == nil && at.Year() > 0 && stamp(at) == v
	}}
}

// order is a way to sort a list of T: unique columns, and their values in an item for the cursor.
type order[T any] struct {
	columns []column
	values  func(T) []string
}

// orders are the ways to sort one list; the empty key is its own order.
type orders[T any] map[string]order[T]

// paging is one page's place in a list. A page back is read from its end: SQL gives its rows in the contrary order, nearest to
// the cursor first, and cut turns them round.
type paging[T any] struct {
	order[T]
	sort   string
	desc   bool     // the order of SQL's rows
	back   bool     // the page ends before the cursor, instead of beginning after it
	cursor []string // nil: the list's first page
	limit  int
}

// page reads q's sort, cursor and limit. own is the sort of a list that nobody sorted.
func (all orders[T]) page(q fleet.Query, own string) (paging[T], error) {
	p := paging[T]{sort: q.Sort, limit: q.Limit}
	if p.sort == "" {
		p.sort = own
	}
	if p.limit < 1 {
		p.limit = defaultPage
	}
	p.limit = min(p.limit, largestPage)
	key, desc := strings.CutPrefix(p.sort, "-")
	o, ok := all[key]
	if !ok {
		var c fleet.Checks
		c.Add("sort", "This list cannot be sorted by %q. Sort by one of: %s; put - in front for the contrary.", key, strings.Join(sorted(all), ", "))
		return p, c.Err()
	}
	p.order, p.back = o, q.Before != ""
	p.desc = desc != p.back
	var err error
	switch {
	case q.After != "" && q.Before != "":
		err = fleet.Errorf(fleet.Malformed, "A page comes after one place of a list or before one. Give one of the two.")
	case q.After != "" || q.Before != "":
		p.cursor, err = readCursor(cmp.Or(q.After, q.Before), p.sort, o.columns)
	}
	return p, err
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// apply adds the cursor's condition to s and returns ORDER BY and LIMIT: one row more than the page, which tells whether there is another.
func (p paging[T]) apply(s *statement) string {
	if p.cursor != nil {
		names, values := make([]string, len(p.columns)), make([]string, len(p.columns))
		for i, c := range p.columns {
			names[i], values[i] = c.sql, s.key(p.cursor[i])
		}
		row, at := "("+strings.Join(names, ", ")+")", "("+strings.Join(values, ", ")+")"
		// From the cursor's row on, and not that row: of "beyond it" PostgreSQL would guess that rows which share the first
		// column's value are none, and read and sort all of them where the index has them in order.
		s.and(row + p.onward() + at)
		s.and(row + " <> " + at)
	}
	return " ORDER BY " + p.by() + " LIMIT " + strconv.Itoa(p.limit+1)
}

// applyFirst adds the cursor's condition on the first column alone. apply says the same and more; this is the part that an
// index can use where the columns are of several tables. Where they are of one, PostgreSQL would count it twice.
func (p paging[T]) applyFirst(s *statement) {
	if p.cursor != nil {
		s.and(p.columns[0].sql + p.onward() + s.key(p.cursor[0]))
	}
}

// onward compares what lies from the cursor on with the cursor.
func (p paging[T]) onward() string {
	if p.desc {
		return " <= "
	}
	return " >= "
}

// by is what SQL sorts by.
func (p paging[T]) by() string {
	parts := make([]string, len(p.columns))
	for i, c := range p.columns {
		if parts[i] = c.sql; p.desc {
			parts[i] += " DESC"
		}
	}
	return strings.Join(parts, ", ")
}

// cut makes the page of the rows that apply's statement gave.
func (p paging[T]) cut(items []T) fleet.Page[T] {
	more := len(items) > p.limit
	if more {
		items = items[:p.limit]
	}
	page := fleet.Page[T]{Items: items}
	if len(items) == 0 {
		return page
	}
	before, after := p.cursor != nil, more
	if p.back {
		before, after = more, true
		slices.Reverse(items)
	}
	if before {
		page.Prev = writeCursor(p.sort, p.values(items[0]))
	}
	if after {
		page.Next = writeCursor(p.sort, p.values(items[len(items)-1]))
	}
	return page
}

// A cursor is base64url JSON: the sort that it belongs to, then a row's values in the sort's columns.
func writeCursor(sort string, values []string) string {
	text, _ := json.Marshal(append([]string{sort}, values...)) // strings always marshal
	return base64.RawURLEncoding.EncodeToString(text)
}

func readCursor(cursor, sort string, columns []column) ([]string, error) {
	outdated := fleet.Errorf(fleet.Malformed, "This page link is out of date. Go back to the first page of the list.")
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	var values []string
	if err != nil || json.Unmarshal(text, &values) != nil || len(values) != len(columns)+1 || values[0] != sort {
		return nil, outdated
	}
	for i, c := range columns {
		if !c.known(values[i+1]) {
			return nil, outdated
		}
	}
	return values[1:], nil
}

// question is sql that was made of a grown statement, and how its rows are read.
type question[T any] struct {
	sql  string
	s    *statement
	scan pgx.RowToFunc[T]
}

// collect asks one question. Where its statement varies, it is planned for its very arguments each time: the best plan for a
// label that one VM has is not the best for a label that all have. All others are prepared.
func collect[T any](ctx context.Context, c *Control, sql string, s *statement, scan pgx.RowToFunc[T]) ([]T, error) {
	ask := func(q asker) ([]T, error) {
		args := s.args
		if s.varies {
			args = append([]any{pgx.QueryExecModeCacheDescribe}, args...)
		}
		rows, err := q.Query(ctx, sql, args...)
		if err != nil {
			return nil, err
		}
		return question[T]{sql, s, scan}.read(rows)
	}
	if s.searches {
		return search(ctx, c, ask)
	}
	items, err := ask(c.db)
	return items, dbError(err)
}

// asker is the way to the database, or a transaction of its own.
type asker interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// searchTime is what the server spends on one statement that looks for parts of text. Who asks for more is told to say more of
// what is looked for: nobody's filter keeps the others waiting.
const searchTime = 2 * time.Second

// search asks under searchTime.
func search[T any](ctx context.Context, c *Control, ask func(asker) ([]T, error)) (items []T, err error) {
	if joined(ctx) {
		items, err = ask(c.db)
		return items, dbError(err)
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	begin := fmt.Sprintf("BEGIN READ ONLY; SET LOCAL statement_timeout = %d", searchTime.Milliseconds())
	err = pgx.BeginTxFunc(ctx, c.db.pool, pgx.TxOptions{BeginQuery: begin}, func(tx pgx.Tx) error {
		items, err = ask(tx)
		return err
	})
	const cancelled = "57014"
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == cancelled && ctx.Err() == nil {
		text := "This search takes too long. Write more of what you look for, with fewer asterisks."
		return nil, &fleet.Error{Code: fleet.Invalid, Message: text, Fields: []fleet.FieldError{{Field: "filter", Message: text}}}
	}
	return items, dbError(err)
}

func (q question[T]) read(rows pgx.Rows) ([]T, error) {
	return pgx.AppendRows(make([]T, 0, usualPage), rows, q.scan)
}

// join adds the question to others that travel together; into holds its answer once they are sent. All of them are prepared.
func join[T any](b *pgx.Batch, q question[T], into *[]T) {
	b.Queue(q.sql, q.s.args...).Query(func(rows pgx.Rows) (err error) {
		*into, err = q.read(rows)
		return err
	})
}
