# Made by: edgetune completions --write completions/
_edgetune() {
    local line="${COMP_LINE:0:COMP_POINT}" words current previous word longer
    local key="" options="" arguments="" values="" expects=0
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    current="${words[-1]}" previous="${words[-2]:-}"
    for word in "${words[@]:1:${#words[@]}-2}"; do
        longer="${key:+$key }$word"
        case "$longer" in "profile"|"search"|"search evaluate"|"search sensitivity"|"interleave"|"roofline"|"roofline ops"|"device"|"device list"|"device show"|"device modes"|"device set"|"device restore"|"device watch"|"zoo"|"zoo list"|"zoo export"|"show"|"doctor") key="$longer" ;; esac
    done
    case "$key" in
        "") options="--version --help -h" arguments="profile search interleave roofline device zoo show doctor" ;;
        "profile") options="--task -t --batch-sizes -b --device -d --root --modes -m --output -o --target-ci --minibatches --point-timeout --retries --cool-to --cool-timeout --interleave-repeats --inputs --dim --ops --precision --convergence --dataset --target-accuracy --max-epochs --seeds --jobs --optimizer --learning-rate --fresh --seed --dry-run --json --quiet -q --verbose --help -h" arguments="zoo:mobilenet_v3_large zoo:mobilenet_v2 zoo:resnet18 zoo:resnet50 zoo:yolov8n zoo:lstm zoo:bert_base zoo:bert_large zoo:alexnet zoo:squeezenet" ;;
        "search") options="--kind --power-budget --latency-budget --arrival-rate --objective --margin --problem --background --background-batch --convergence --strategy --max-points --time-budget --reusable --power-noise --workload --task -t --device -d --root --modes -m --batch-sizes -b --dim --ops --precision --inputs --point-timeout --cool-to --cool-timeout --known --like --roofline --output -o --trace --points --plot --seed --dry-run --json --quiet -q --verbose --help -h" arguments="evaluate sensitivity zoo:mobilenet_v3_large zoo:mobilenet_v2 zoo:resnet18 zoo:resnet50 zoo:yolov8n zoo:lstm zoo:bert_base zoo:bert_large zoo:alexnet zoo:squeezenet" ;;
        "search evaluate") options="--family --strategies --grid --sample --all --seeds --noise --tie --by --convergence --arrivals --scale --power-budget --latency-budget --jobs --output -o --plot --json --quiet -q --verbose --help -h" arguments="zoo:mobilenet_v3_large zoo:mobilenet_v2 zoo:resnet18 zoo:resnet50 zoo:yolov8n zoo:lstm zoo:bert_base zoo:bert_large zoo:alexnet zoo:squeezenet" ;;
        "search sensitivity") options="--convergence --power-budget --margin --objective --workload --json --quiet -q --help -h" arguments="zoo:mobilenet_v3_large zoo:mobilenet_v2 zoo:resnet18 zoo:resnet50 zoo:yolov8n zoo:lstm zoo:bert_base zoo:bert_large zoo:alexnet zoo:squeezenet" ;;
        "interleave") options="--infer --train --arrivals --latency-budget --power-budget --batch-size -b --train-batch-size --engine -e --turns --duration --device -d --root --modes -m --profile --adapt --govern --best-effort --explain --inputs --handler --checkpoint --resume --dim --output -o --plot --view --seed --dry-run --json --quiet -q --verbose --help -h" arguments="" ;;
        "roofline") options="--task -t --train --device -d --root --modes -m --batch-sizes -b --precision --dim --phase --context --peaks --profile --output -o --plot --view --tune --fused --layers --quick --force --no-measure --seed --dry-run --json --quiet -q --verbose --help -h" arguments="ops zoo:mobilenet_v3_large zoo:mobilenet_v2 zoo:resnet18 zoo:resnet50 zoo:yolov8n zoo:lstm zoo:bert_base zoo:bert_large zoo:alexnet zoo:squeezenet" ;;
        "roofline ops") options="--task -t --train --batch-size --precision --dim --phase --context --fused --by --strict --output -o --json --quiet -q --help -h" arguments="zoo:mobilenet_v3_large zoo:mobilenet_v2 zoo:resnet18 zoo:resnet50 zoo:yolov8n zoo:lstm zoo:bert_base zoo:bert_large zoo:alexnet zoo:squeezenet" ;;
        "device") options="--root --modes -m --check --leave-one-out --calibrate --seed --json --quiet -q --help -h" arguments="list show modes set restore watch auto host twin:orin-agx recorded: jetson nvidia:0" ;;
        "device list") options="--json --help -h" arguments="" ;;
        "device show") options="--root --json --help -h" arguments="auto host twin:orin-agx recorded: jetson nvidia:0" ;;
        "device modes") options="--root --json --help -h" arguments="auto host twin:orin-agx recorded: jetson nvidia:0" ;;
        "device set") options="--root --dry-run --json --quiet -q --help -h" arguments="auto host twin:orin-agx recorded: jetson nvidia:0" ;;
        "device restore") options="--root --json --help -h" arguments="auto host twin:orin-agx recorded: jetson nvidia:0" ;;
        "device watch") options="--interval --count --root --json --help -h" arguments="auto host twin:orin-agx recorded: jetson nvidia:0" ;;
        "zoo") options="--json --help -h" arguments="list export" ;;
        "zoo list") options="--json --help -h" arguments="" ;;
        "zoo export") options="--output -o --batch-size --seed --quiet -q --help -h" arguments="mobilenet_v3_large mobilenet_v2 resnet18 resnet50 yolov8n lstm bert_base bert_large alexnet squeezenet" ;;
        "show") options="--plot --view --rows --json --help -h" arguments="" ;;
        "doctor") options="--root --json --help -h" arguments="" ;;
    esac
    case "$key $previous" in
        "profile --task") values="infer train"; expects=1 ;;
        "profile -t") values="infer train"; expects=1 ;;
        "profile --batch-sizes") values=""; expects=1 ;;
        "profile -b") values=""; expects=1 ;;
        "profile --device") values="auto host twin:orin-agx recorded: jetson nvidia:0"; expects=1 ;;
        "profile -d") values="auto host twin:orin-agx recorded: jetson nvidia:0"; expects=1 ;;
        "profile --root") values=""; expects=1 ;;
        "profile --modes") values="MAXN grid:441 all"; expects=1 ;;
        "profile -m") values="MAXN grid:441 all"; expects=1 ;;
        "profile --output") values=""; expects=1 ;;
        "profile -o") values=""; expects=1 ;;
        "profile --target-ci") values=""; expects=1 ;;
        "profile --minibatches") values=""; expects=1 ;;
        "profile --point-timeout") values=""; expects=1 ;;
        "profile --retries") values=""; expects=1 ;;
        "profile --cool-to") values=""; expects=1 ;;
        "profile --cool-timeout") values=""; expects=1 ;;
        "profile --interleave-repeats") values=""; expects=1 ;;
        "profile --inputs") values=""; expects=1 ;;
        "profile --dim") values=""; expects=1 ;;
        "profile --ops") values=""; expects=1 ;;
        "profile --precision") values="fp32 tf32 fp16 bf16 fp8 int8"; expects=1 ;;
        "profile --dataset") values=""; expects=1 ;;
        "profile --target-accuracy") values=""; expects=1 ;;
        "profile --max-epochs") values=""; expects=1 ;;
        "profile --seeds") values=""; expects=1 ;;
        "profile --jobs") values=""; expects=1 ;;
        "profile --optimizer") values=""; expects=1 ;;
        "profile --learning-rate") values=""; expects=1 ;;
        "profile --seed") values=""; expects=1 ;;
        "search --kind") values="train infer train+infer infer+infer accuracy"; expects=1 ;;
        "search --power-budget") values=""; expects=1 ;;
        "search --latency-budget") values=""; expects=1 ;;
        "search --arrival-rate") values=""; expects=1 ;;
        "search --objective") values="throughput latency energy energy-delay time"; expects=1 ;;
        "search --margin") values=""; expects=1 ;;
        "search --problem") values=""; expects=1 ;;
        "search --background") values=""; expects=1 ;;
        "search --background-batch") values=""; expects=1 ;;
        "search --convergence") values=""; expects=1 ;;
        "search --strategy") values="auto exhaustive random binary nn gmd als roofline pareto staircase tpe gp"; expects=1 ;;
        "search --max-points") values=""; expects=1 ;;
        "search --time-budget") values=""; expects=1 ;;
        "search --power-noise") values=""; expects=1 ;;
        "search --workload") values=""; expects=1 ;;
        "search --task") values="infer train"; expects=1 ;;
        "search -t") values="infer train"; expects=1 ;;
        "search --device") values="auto host twin:orin-agx recorded: jetson nvidia:0"; expects=1 ;;
        "search -d") values="auto host twin:orin-agx recorded: jetson nvidia:0"; expects=1 ;;
        "search --root") values=""; expects=1 ;;
        "search --modes") values="MAXN grid:441 all"; expects=1 ;;
        "search -m") values="MAXN grid:441 all"; expects=1 ;;
        "search --batch-sizes") values=""; expects=1 ;;
        "search -b") values=""; expects=1 ;;
        "search --dim") values=""; expects=1 ;;
        "search --ops") values=""; expects=1 ;;
        "search --precision") values="fp32 tf32 fp16 bf16 fp8 int8"; expects=1 ;;
        "search --inputs") values=""; expects=1 ;;
        "search --point-timeout") values=""; expects=1 ;;
        "search --cool-to") values=""; expects=1 ;;
        "search --cool-timeout") values=""; expects=1 ;;
        "search --known") values=""; expects=1 ;;
        "search --like") values=""; expects=1 ;;
        "search --roofline") values=""; expects=1 ;;
        "search --output") values=""; expects=1 ;;
        "search -o") values=""; expects=1 ;;
        "search --trace") values=""; expects=1 ;;
        "search --points") values=""; expects=1 ;;
        "search --plot") values=""; expects=1 ;;
        "search --seed") values=""; expects=1 ;;
        "search evaluate --family") values="train infer train+infer infer+infer dynamic accuracy"; expects=1 ;;
        "search evaluate --strategies") values="exhaustive random binary nn gmd als roofline pareto staircase tpe gp"; expects=1 ;;
        "search evaluate --grid") values="fulcrum auto"; expects=1 ;;
        "search evaluate --sample") values=""; expects=1 ;;
        "search evaluate --seeds") values=""; expects=1 ;;
        "search evaluate --noise") values=""; expects=1 ;;
        "search evaluate --tie") values=""; expects=1 ;;
        "search evaluate --by") values="strategy workload"; expects=1 ;;
        "search evaluate --convergence") values=""; expects=1 ;;
        "search evaluate --arrivals") values=""; expects=1 ;;
        "search evaluate --scale") values=""; expects=1 ;;
        "search evaluate --power-budget") values=""; expects=1 ;;
        "search evaluate --latency-budget") values=""; expects=1 ;;
        "search evaluate --jobs") values=""; expects=1 ;;
        "search evaluate --output") values=""; expects=1 ;;
        "search evaluate -o") values=""; expects=1 ;;
        "search evaluate --plot") values=""; expects=1 ;;
        "search sensitivity --convergence") values=""; expects=1 ;;
        "search sensitivity --power-budget") values=""; expects=1 ;;
        "search sensitivity --margin") values=""; expects=1 ;;
        "search sensitivity --objective") values="throughput latency energy energy-delay time"; expects=1 ;;
        "search sensitivity --workload") values=""; expects=1 ;;
        "interleave --infer") values=""; expects=1 ;;
        "interleave --train") values=""; expects=1 ;;
        "interleave --arrivals") values=""; expects=1 ;;
        "interleave --latency-budget") values=""; expects=1 ;;
        "interleave --power-budget") values=""; expects=1 ;;
        "interleave --batch-size") values=""; expects=1 ;;
        "interleave -b") values=""; expects=1 ;;
        "interleave --train-batch-size") values=""; expects=1 ;;
        "interleave --engine") values=""; expects=1 ;;
        "interleave -e") values=""; expects=1 ;;
        "interleave --turns") values=""; expects=1 ;;
        "interleave --duration") values=""; expects=1 ;;
        "interleave --device") values="auto host twin:orin-agx recorded: jetson nvidia:0"; expects=1 ;;
        "interleave -d") values="auto host twin:orin-agx recorded: jetson nvidia:0"; expects=1 ;;
        "interleave --root") values=""; expects=1 ;;
        "interleave --modes") values="MAXN grid:441 all"; expects=1 ;;
        "interleave -m") values="MAXN grid:441 all"; expects=1 ;;
        "interleave --profile") values=""; expects=1 ;;
        "interleave --inputs") values=""; expects=1 ;;
        "interleave --handler") values=""; expects=1 ;;
        "interleave --checkpoint") values=""; expects=1 ;;
        "interleave --resume") values=""; expects=1 ;;
        "interleave --dim") values=""; expects=1 ;;
        "interleave --output") values=""; expects=1 ;;
        "interleave -o") values=""; expects=1 ;;
        "interleave --plot") values=""; expects=1 ;;
        "interleave --view") values=""; expects=1 ;;
        "interleave --seed") values=""; expects=1 ;;
        "roofline --task") values="infer train"; expects=1 ;;
        "roofline -t") values="infer train"; expects=1 ;;
        "roofline --device") values="auto host twin:orin-agx recorded: jetson nvidia:0"; expects=1 ;;
        "roofline -d") values="auto host twin:orin-agx recorded: jetson nvidia:0"; expects=1 ;;
        "roofline --root") values=""; expects=1 ;;
        "roofline --modes") values="MAXN grid:441 all"; expects=1 ;;
        "roofline -m") values="MAXN grid:441 all"; expects=1 ;;
        "roofline --batch-sizes") values=""; expects=1 ;;
        "roofline -b") values=""; expects=1 ;;
        "roofline --precision") values="fp32 tf32 fp16 bf16 fp8 int8"; expects=1 ;;
        "roofline --dim") values=""; expects=1 ;;
        "roofline --phase") values=""; expects=1 ;;
        "roofline --context") values=""; expects=1 ;;
        "roofline --peaks") values=""; expects=1 ;;
        "roofline --profile") values=""; expects=1 ;;
        "roofline --output") values=""; expects=1 ;;
        "roofline -o") values=""; expects=1 ;;
        "roofline --plot") values=""; expects=1 ;;
        "roofline --view") values="roofs batches clocks"; expects=1 ;;
        "roofline --tune") values=""; expects=1 ;;
        "roofline --seed") values=""; expects=1 ;;
        "roofline ops --task") values="infer train"; expects=1 ;;
        "roofline ops -t") values="infer train"; expects=1 ;;
        "roofline ops --batch-size") values=""; expects=1 ;;
        "roofline ops --precision") values="fp32 tf32 fp16 bf16 fp8 int8"; expects=1 ;;
        "roofline ops --dim") values=""; expects=1 ;;
        "roofline ops --phase") values=""; expects=1 ;;
        "roofline ops --context") values=""; expects=1 ;;
        "roofline ops --by") values="op class node"; expects=1 ;;
        "roofline ops --output") values=""; expects=1 ;;
        "roofline ops -o") values=""; expects=1 ;;
        "device --root") values=""; expects=1 ;;
        "device --modes") values="MAXN grid:441 all"; expects=1 ;;
        "device -m") values="MAXN grid:441 all"; expects=1 ;;
        "device --calibrate") values=""; expects=1 ;;
        "device --seed") values=""; expects=1 ;;
        "device show --root") values=""; expects=1 ;;
        "device modes --root") values=""; expects=1 ;;
        "device set --root") values=""; expects=1 ;;
        "device restore --root") values=""; expects=1 ;;
        "device watch --interval") values=""; expects=1 ;;
        "device watch --count") values=""; expects=1 ;;
        "device watch --root") values=""; expects=1 ;;
        "zoo export --output") values=""; expects=1 ;;
        "zoo export -o") values=""; expects=1 ;;
        "zoo export --batch-size") values=""; expects=1 ;;
        "zoo export --seed") values=""; expects=1 ;;
        "show --plot") values=""; expects=1 ;;
        "show --view") values="front steps trajectory"; expects=1 ;;
        "show --rows") values=""; expects=1 ;;
        "doctor --root") values=""; expects=1 ;;
    esac
    if (( expects )); then
        COMPREPLY=($(compgen -W "$values" -- "$current"))
    elif [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$current"))
    else
        COMPREPLY=($(compgen -W "$arguments" -- "$current"))
    fi
    if [[ $current == *:* && $COMP_WORDBREAKS == *:* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"${current%"${current##*:}"}"}")
    fi
}
complete -o bashdefault -o default -F _edgetune edgetune
