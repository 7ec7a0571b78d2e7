package main

// The types of these files stand in for v1.Pod and v1.Node of the Kubernetes API: same JSON shape, same kinds of custom
// (un)marshalling for times and quantities, so that decoding costs what a usual Go extender pays.

import (
	"encoding/json"
	"errors"
	"math/big"
	"strconv"
	"strings"
	"time"
)

type Time struct{ time.Time }

func (t *Time) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		t.Time = time.Time{}
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	p, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return err
	}
	t.Time = p.Local()
	return nil
}

func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	buf := make([]byte, 0, len(time.RFC3339)+2)
	buf = append(buf, '"')
	buf = t.UTC().AppendFormat(buf, time.RFC3339)
	return append(buf, '"'), nil
}

type Quantity struct {
	value  int64
	scale  int32
	suffix string
	s      string
	d      *big.Int
}

var suffixes = map[string]int32{"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}

func (q *Quantity) UnmarshalJSON(b []byte) error {
	l := len(b)
	if l == 4 && string(b) == "null" {
		*q = Quantity{}
		return nil
	}
	if l >= 2 && b[0] == '"' && b[l-1] == '"' {
		b = b[1 : l-1]
	}
	s := strings.TrimSpace(string(b))
	i := 0
	for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '-' || s[i] == '.') {
		i++
	}
	sc, ok := suffixes[s[i:]]
	if !ok {
		return errors.New("bad quantity suffix")
	}
	v, err := strconv.ParseInt(s[:i], 10, 64)
	if err != nil {
		return err
	}
	*q = Quantity{value: v, scale: sc, suffix: s[i:], s: s}
	return nil
}

func (q Quantity) MarshalJSON() ([]byte, error) {
	if len(q.s) > 0 {
		out := make([]byte, len(q.s)+2)
		out[0], out[len(out)-1] = '"', '"'
		copy(out[1:], q.s)
		return out, nil
	}
	return []byte(`"` + strconv.FormatInt(q.value, 10) + q.suffix + `"`), nil
}

type ResourceList map[string]Quantity
