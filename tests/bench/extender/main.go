// Command extender is the opponent of the benchmark: a scheduler extender as it is usually written in Go, with net/http,
// encoding/json and the full Kubernetes types, deciding from a map in memory.
//
//	extender -state state.json [-listen 127.0.0.1:0] [-port-file FILE]
//
// The state file holds {"rejected": {node: reason}, "score": {node: 0-10}, "plain": the same for pods without storage}.
// Without "plain" those are not touched by it.
package main

import (
	"encoding/json"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
)

type health struct {
	Rejected map[string]string `json:"rejected"`
	Score    map[string]int64  `json:"score"`
	Plain    *health           `json:"plain"`
}

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on")
	statePath := flag.String("state", "state.json", "health state of the nodes")
	portFile := flag.String("port-file", "", "write {\"http\": port} to this file once listening")
	flag.Parse()

	state, err := readState(*statePath)
	if err != nil {
		log.Fatalf("state: %v", err)
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatalf("listen: %v", err)
	}
	if *portFile != "" {
		if err := announce(*portFile, listener.Addr().(*net.TCPAddr).Port); err != nil {
			log.Fatalf("port file: %v", err)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /filter", answer(state.filter))
	mux.HandleFunc("POST /prioritize", answer(state.prioritize))
	log.Fatal(http.Serve(listener, mux))
}

func readState(path string) (*health, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	state := &health{}
	return state, json.Unmarshal(text, state)
}

// announce writes the file whole, so that a reader never sees half of it.
func announce(path string, port int) error {
	partial := path + ".partial"
	if err := os.WriteFile(partial, []byte(`{"http": `+strconv.Itoa(port)+`}`), 0o644); err != nil {
		return err
	}
	return os.Rename(partial, path)
}

// answer decodes the arguments, lets decide look at them and encodes what it returns.
func answer(decide func(*ExtenderArgs) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var args ExtenderArgs
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(decide(&args))
	}
}

func needsStorage(pod *Pod) bool {
	if pod == nil {
		return false
	}
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].PVC != nil {
			return true
		}
	}
	return false
}

// of is what decides about the pod, nil if nothing does.
func (state *health) of(pod *Pod) *health {
	if needsStorage(pod) {
		return state
	}
	return state.Plain
}

func (state *health) filter(args *ExtenderArgs) any {
	result := &ExtenderFilterResult{FailedNodes: map[string]string{}, FailedAndUnresolvableNodes: map[string]string{}}
	decisive := state.of(args.Pod)
	switch {
	case decisive == nil:
		result.Nodes, result.NodeNames = args.Nodes, args.NodeNames
	case args.NodeNames != nil:
		result.NodeNames = decisive.passing(*args.NodeNames, result)
	case args.Nodes != nil:
		result.Nodes = decisive.passingNodes(args.Nodes.Items, result)
	}
	return result
}

func (state *health) passing(names []string, result *ExtenderFilterResult) *[]string {
	passed := make([]string, 0, len(names))
	for _, name := range names {
		if reason, rejected := state.Rejected[name]; rejected {
			result.FailedAndUnresolvableNodes[name] = reason
		} else {
			passed = append(passed, name)
		}
	}
	return &passed
}

func (state *health) passingNodes(nodes []Node, result *ExtenderFilterResult) *NodeList {
	passed := &NodeList{Items: make([]Node, 0, len(nodes))}
	for i := range nodes {
		if reason, rejected := state.Rejected[nodes[i].Name]; rejected {
			result.FailedAndUnresolvableNodes[nodes[i].Name] = reason
		} else {
			passed.Items = append(passed.Items, nodes[i])
		}
	}
	return passed
}

func (state *health) prioritize(args *ExtenderArgs) any {
	priorities := []HostPriority{}
	decisive := state.of(args.Pod)
	switch {
	case decisive == nil: // no opinion
	case args.NodeNames != nil:
		for _, name := range *args.NodeNames {
			priorities = append(priorities, HostPriority{name, decisive.Score[name]})
		}
	case args.Nodes != nil:
		for i := range args.Nodes.Items {
			name := args.Nodes.Items[i].Name
			priorities = append(priorities, HostPriority{name, decisive.Score[name]})
		}
	}
	return priorities
}
