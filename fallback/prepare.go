package fallback

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// A readyStep is a step with its parameters encoded.
type readyStep struct {
	text        string
	unnamed     bool
	description *pgconn.StatementDescription
	values      [][]byte
	formats     []int16 // of the values
	results     []int16 // format of the columns
}

func (r *readyStep) send(line *pgconn.Pipeline) {
	if r.unnamed {
		line.SendQueryParams(r.text, r.values, r.description.ParamOIDs, r.formats, r.results)
		return
	}
	line.SendQueryStatement(r.description, r.values, r.formats, r.results)
}

// prepare encodes every step, so that nothing is sent when one cannot be. done
// gives the memory back, once all has been sent.
func (p *Postgres) prepare(ctx context.Context, c *pgx.Conn, steps []step) (ready []readyStep, done func(), err error) {
	buf, _ := p.buffers.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	done = func() {
		if cap(*buf) <= maxBuffer {
			p.buffers.Put(buf)
		}
	}
	ready = make([]readyStep, len(steps))
	encoded := append((*buf)[:0], 0) // not nil, which would be null
	for i, s := range steps {
		d, err := p.describe(ctx, c, s.statement)
		if err != nil {
			return nil, nil, err
		}
		ready[i] = readyStep{text: s.statement.text, unnamed: p.unnamed, description: d}
		if encoded, err = ready[i].encode(c.TypeMap(), s, encoded); err != nil {
			return nil, nil, &encodeError{err}
		}
	}
	*buf = encoded
	return ready, done, nil
}

// maxBuffer is the largest buffer that is kept for later statements.
const maxBuffer = 1 << 20

// encode appends the parameters to buf as the statement's types want them.
func (r *readyStep) encode(types *pgtype.Map, s step, buf []byte) ([]byte, error) {
	d, args := r.description, s.args
	if len(args) != len(d.ParamOIDs) {
		return nil, fmt.Errorf("%d parameters for a statement that takes %d", len(args), len(d.ParamOIDs))
	}
	r.values, r.formats = make([][]byte, len(args)), make([]int16, len(args))
	for i, arg := range args {
		longer, format, err := encodeArg(types, d.ParamOIDs[i], arg, s.statement.single, buf)
		if err != nil {
			return nil, fmt.Errorf("parameter %d: %w", i+1, err)
		}
		r.formats[i] = format
		if longer != nil { // else it is null
			r.values[i], buf = longer[len(buf):], longer
		}
	}
	r.results = binaryResults
	return buf, nil
}

// binaryResults: all columns in binary form, as fields takes them, whatever
// types the pool's owner has registered.
var binaryResults = []int16{pgx.BinaryFormatCode}

// encodeArg appends one parameter to buf; nil: it is null.
func encodeArg(types *pgtype.Map, oid uint32, arg any, single bool, buf []byte) (longer []byte, format int16, err error) {
	switch v := arg.(type) {
	case parameter:
		if single {
			return v.value(buf), pgx.BinaryFormatCode, nil
		}
		return v.array(buf), pgx.BinaryFormatCode, nil
	case string:
		return append(buf, v...), pgx.TextFormatCode, nil
	}
	format = types.FormatCodeForOID(oid)
	longer, err = types.Encode(oid, format, arg, buf)
	return longer, format, err
}

// An encodeError is the fault of a value, not of the connection.
type encodeError struct{ error }

func (e *encodeError) Unwrap() error { return e.error }

// describe returns the statement's description: of one prepared on this
// connection, or, through a pooler that gives each transaction another server
// connection, of the unnamed statement, which each use parses again.
func (p *Postgres) describe(ctx context.Context, c *pgx.Conn, s *statement) (*pgconn.StatementDescription, error) {
	if !p.unnamed {
		return c.Prepare(ctx, s.name, s.text)
	}
	if d, ok := p.described.Load(s.name); ok {
		return d.(*pgconn.StatementDescription), nil
	}
	d, err := c.PgConn().Prepare(ctx, "", s.text, nil)
	if err != nil {
		return nil, err
	}
	p.described.Store(s.name, d)
	return d, nil
}

// unnamedMode reports whether the pool's connections must not keep prepared
// statements: its default_query_exec_mode says so.
func unnamedMode(mode pgx.QueryExecMode) bool { return mode != pgx.QueryExecModeCacheStatement }
